"""OfflineModel: a deterministic ChatModel for demo mode and for degraded service.

It is no language model and never pretends to be one: it parses the message with the shared
lexicon, calls the right read or preview tools, and answers from their results with templates.
"""

import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from minara_core.events import TokenUsage
from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.untrusted import unwrap
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
from minara_llm.offline_answer import join_parts, read_outcome, tell_outcome, tell_result
from minara_llm.offline_phrases import Phrases, phrases_for
from minara_llm.offline_plan import Plan, PlannedCall, Remark, plan

OFFLINE_PROVIDER = "offline"
OFFLINE_MODEL = "offline-1"

_SENTENCE = re.compile(r".+?(?:\n|[.!?](?=\s)\s?|[。！？]|$)", re.DOTALL)
_DECIDED = re.compile(r'<block name="decided_action">(.*?)</block>', re.DOTALL)
_NO_COST = TokenUsage(cost_usd=Decimal(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """What the newest user message began: its text, and each tool result since, with its name."""

    text: str
    results: tuple[tuple[str, str], ...]
    decided: str


def _last_user(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role is Role.USER:
            return index
    return -1


def _results(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    names: dict[str, str] = {}
    for message in messages:
        names |= {call.tool_call_id: call.name for call in message.tool_calls}
        for block in message.blocks:
            if isinstance(block, ToolResultBlock):
                yield names.get(block.tool_call_id, "tool"), unwrap(block.envelope)


def _decided(messages: Sequence[Message]) -> str:
    """The newest decided_action block; only context messages, which are ours, can hold one."""
    for message in reversed(messages):
        found = _DECIDED.findall(message.text) if message.role is Role.CONTEXT else []
        if found:
            return found[-1]
    return ""


def _read(messages: Sequence[Message]) -> _Turn:
    start = _last_user(messages)
    since = messages[start + 1 :]
    return _Turn(
        text=messages[start].text if start >= 0 else "",
        results=tuple(_results(since)),
        decided=_decided(since),
    )


def _available(request: ModelRequest) -> frozenset[str]:
    if request.tool_choice is ToolChoice.NONE:
        return frozenset()
    names = frozenset(tool.name for tool in request.tools)
    return names & frozenset(request.callable_tools) if request.callable_tools else names


def _remark(phrases: Phrases, remark: Remark) -> str:
    return phrases[remark.key].format(**remark.values)


def _answer(phrases: Phrases, turn: _Turn, planned: Plan) -> str:
    answered = {name for name, _ in turn.results}
    missing = list(dict.fromkeys(c.name for c in planned.calls if c.name not in answered))
    parts = [tell_result(phrases, name, envelope) for name, envelope in turn.results]
    parts += [_remark(phrases, remark) for remark in planned.remarks]
    if missing:
        parts.append(phrases["unavailable"].format(tools=", ".join(missing)))
    if planned.is_analysis:
        parts.append(phrases["analysis"])
    return join_parts(parts)


def _says(text: str) -> Iterator[ModelEvent]:
    for piece in _SENTENCE.findall(text):
        yield ModelText(text=piece)
    yield ModelUsage(usage=_NO_COST)
    yield ModelStop(reason=StopReason.END)


def _calls(planned: Sequence[PlannedCall]) -> Iterator[ModelEvent]:
    for call in planned:
        yield ModelToolCall(
            name=call.name,
            arguments_json=json.dumps(dict(call.arguments), ensure_ascii=False),
        )
    yield ModelUsage(usage=_NO_COST)
    yield ModelStop(reason=StopReason.TOOL_CALLS)


def _events(request: ModelRequest) -> Iterator[ModelEvent]:
    turn = _read(request.messages)
    phrases = phrases_for(turn.text)
    outcome = read_outcome(turn.decided) if turn.decided else None
    if outcome is not None:
        return _says(tell_outcome(phrases, outcome))
    planned = plan(turn.text)
    available = _available(request)
    callable_now = [call for call in planned.calls if call.name in available]
    if callable_now and not turn.results:
        return _calls(callable_now)
    return _says(_answer(phrases, turn, planned))


class OfflineModel:
    """Answers the newest user message of a request; equal requests get equal answers.

    `is_degraded`: it stands in for language models that cannot be reached.
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
        for event in _events(request):
            yield event
