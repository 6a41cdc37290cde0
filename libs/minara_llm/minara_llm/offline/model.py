"""OfflineModel: a deterministic ChatModel for demo mode and for degraded service.

It is no language model and never pretends to be one: it parses the message with the shared
lexicon, calls the right read or preview tools, and answers from their results with templates.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from decimal import Decimal

from minara_core.events import TokenUsage
from minara_llm.model import (
    ModelEvent,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelToolCall,
    ModelUsage,
    StopReason,
    ToolChoice,
)
from minara_llm.offline.answer import join_parts, read_outcome, tell_outcome
from minara_llm.offline.phrases import phrases_for
from minara_llm.offline.plan import plan
from minara_llm.offline.steps import PlannedCall
from minara_llm.offline.talk import OfflineTalk
from minara_llm.offline.turn import read_turn

OFFLINE_PROVIDER = "offline"
OFFLINE_MODEL = "offline-1"

_SENTENCE = re.compile(r".+?(?:\n|[.!?](?=\s)\s?|[。！？]|$)", re.DOTALL)
_NO_COST = TokenUsage(cost_usd=Decimal(0))


def _available(request: ModelRequest) -> frozenset[str]:
    if request.tool_choice is ToolChoice.NONE:
        return frozenset()
    names = frozenset(tool.name for tool in request.tools)
    return names if request.callable_tools is None else names & frozenset(request.callable_tools)


def _texts(text: str) -> Iterator[ModelEvent]:
    for piece in _SENTENCE.findall(text):
        yield ModelText(text=piece)


def _says(text: str) -> Iterator[ModelEvent]:
    yield from _texts(text)
    yield ModelUsage(usage=_NO_COST)
    yield ModelStop(reason=StopReason.END)


def _calls(planned: Sequence[PlannedCall], *, after: str = "") -> Iterator[ModelEvent]:
    yield from _texts(after)
    for call in planned:
        yield ModelToolCall(
            name=call.name,
            arguments_json=json.dumps(dict(call.arguments), ensure_ascii=False),
        )
    yield ModelUsage(usage=_NO_COST)
    yield ModelStop(reason=StopReason.TOOL_CALLS)


def _events(request: ModelRequest, *, is_degraded: bool) -> Iterator[ModelEvent]:
    turn = read_turn(request.messages)
    phrases = phrases_for(turn.text)
    outcome = read_outcome(turn.decided) if turn.decided else None
    if outcome is not None:
        opening = phrases["degraded"] if is_degraded else ""
        return _says(join_parts([opening, tell_outcome(phrases, outcome)]))
    talk = OfflineTalk(turn, plan(turn.text), _available(request), phrases, is_degraded=is_degraded)
    if reads := talk.next_reads():
        return _calls(reads)
    # Orders come last: a preview ends the turn, and nothing can be told after it.
    if orders := talk.next_orders():
        return _calls(orders, after=talk.answer())
    return _says(talk.answer())


class OfflineModel:
    """Answers the newest user message of a request; equal requests get equal answers.

    `is_degraded`: it stands in for language models that cannot be reached. It says so, reads, tells
    what they had called before they failed, and prepares no orders.
    """

    def __init__(self, *, is_degraded: bool = False) -> None:
        self._is_degraded = is_degraded

    @property
    def provider(self) -> str:
        return OFFLINE_PROVIDER

    @property
    def name(self) -> str:
        return OFFLINE_MODEL

    @property
    def context_window(self) -> int:
        return 1_000_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for event in _events(request, is_degraded=self._is_degraded):
            yield event
