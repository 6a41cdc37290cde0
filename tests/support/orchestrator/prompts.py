"""Builders of histories and prompts, and what holds for every request that may be sent."""

from collections.abc import Iterable, Sequence

from minara_core.actions import PendingAction
from minara_core.ids import tool_call_id
from minara_core.messages import (
    Message,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    context_message,
    user_message,
)
from minara_core.tooling import ToolCall, ok
from minara_llm.model import ChatModel
from minara_llm.scripted import ScriptedModel
from minara_orchestrator.app.fit_prompt import SUMMARY_SECONDS, FitAsk, Fitted, PromptFitter
from minara_orchestrator.domain.estimate import TokenEstimator
from minara_orchestrator.domain.history import HistoryTurn
from minara_orchestrator.domain.prompt import Prompt, PromptBlock, assemble, marks_in, render
from support.orchestrator.peers import a_definition

BLOCKS = (
    PromptBlock(number=1, key="identity", text="You are Minara."),
    PromptBlock(number=2, key="catalog", text="skills: core.assistant"),
    PromptBlock(number=3, key="memory", text="USER.md: prefers spot."),
    PromptBlock(number=5, key="skill:core.assistant", text="\nHelp plainly.\n"),
    PromptBlock(number=7, key="personalization", text="likes short answers"),
    PromptBlock(number=8, key="signal", text="now: 2026-11-30T12:00Z"),
)
DEFINITIONS = (a_definition("get_price"), a_definition("read_file"))
READ = "get_price"


def a_step(
    number: int, *results: str, name: str = READ, arguments: str = '{"symbol":"BTC"}'
) -> list[Message]:
    """One model message that calls a tool for each result, and their results."""
    calls = [
        ToolCall(tool_call_id=tool_call_id(number, index), name=name, arguments_json=arguments)
        for index in range(len(results))
    ]
    return [
        Message(role=Role.ASSISTANT, blocks=tuple(ToolCallBlock(call) for call in calls)),
        Message(
            role=Role.TOOL,
            blocks=tuple(
                ToolResultBlock(tool_call_id=call.tool_call_id, envelope=ok(result))
                for call, result in zip(calls, results, strict=True)
            ),
        ),
    ]


def a_turn(
    turn_id: str,
    *steps: Sequence[Message],
    text: str = "price of BTC",
    answer: str = "It is 100,000.",
    blocks: Iterable[PromptBlock] = (),
) -> HistoryTurn:
    """A finished turn: what was sent with it, what the person said, its steps, its answer."""
    return HistoryTurn(
        turn_id=turn_id,
        messages=(
            context_message(render(blocks)),
            user_message(text),
            *(message for step in steps for message in step),
            Message(role=Role.ASSISTANT, blocks=(TextBlock(answer),)),
        ),
    )


def a_prompt(
    *history: HistoryTurn, text: str = "and now?", following: Sequence[Message] = ()
) -> Prompt:
    """A prompt over this history whose blocks stand there already if it is not empty."""
    sent = frozenset(marks_in(message for turn in history for message in turn.messages))
    prompt = assemble(
        blocks=BLOCKS,
        definitions=DEFINITIONS,
        history=history,
        already_sent=sent,
        text=text,
        turn_id="turn-now",
        turn_count=len(history),
    )
    return prompt.extended(following)


async def fit(
    prompt: Prompt,
    *,
    window: int,
    batch: ChatModel | None = None,
    pending: tuple[PendingAction, ...] = (),
    message: str = "and now?",
    overflows: int = 0,
    most_tokens: int | None = None,
    summary_seconds: float = SUMMARY_SECONDS,
) -> Fitted:
    """Fit by a new fitter whose estimates nothing has corrected."""
    fitter = PromptFitter(lambda: batch, TokenEstimator(), summary_seconds=summary_seconds)
    ask = FitAsk(session_id="session-1", message=message, pending_actions=pending)
    model = ScriptedModel([], context_window=window)
    return await fitter.fit(prompt, model, ask, overflows=overflows, most_tokens=most_tokens)


def assert_paired(messages: Sequence[Message]) -> None:
    """Every call has exactly one result, directly after it, and there are no other results."""
    waiting: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            for block in message.blocks:
                assert isinstance(block, ToolResultBlock)
                assert block.tool_call_id in waiting
                waiting.remove(block.tool_call_id)
            assert message.blocks
            continue
        assert not waiting
        waiting = [call.tool_call_id for call in message.tool_calls]
    assert not waiting
