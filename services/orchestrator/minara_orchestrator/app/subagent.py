"""Sub-agents: a task of its own, within the turn that gave it (turn.md §6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from minara_core.clock import Clock
from minara_core.events import (
    FinishReason,
    ModelSwitched,
    Payload,
    StepStarted,
    ToolCallFinished,
    ToolCallProgressed,
    ToolCallStarted,
)
from minara_core.ids import ToolCallId
from minara_core.messages import Role
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolCall, ToolDefinition, ToolResult, ToolSuccess, dump_json, ok
from minara_orchestrator.app import tool_outcomes
from minara_orchestrator.app.ask_model import ModelAsker
from minara_orchestrator.app.local_tools import SUBAGENT, LocalTools
from minara_orchestrator.app.ports import Skills, Tools
from minara_orchestrator.app.progress import Progress
from minara_orchestrator.app.run_step import StepRunner
from minara_orchestrator.app.run_tools import ToolRunner
from minara_orchestrator.app.stop_signal import StopSignal
from minara_orchestrator.app.turn_ports import TurnLink
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Past
from minara_orchestrator.domain.model_policy import Route
from minara_orchestrator.domain.prompt import Prompt, PromptBlock, assemble
from minara_orchestrator.domain.turn import Turn

DEEPEST = 2
DEFAULT_STEPS = 6

_ROLE = """You are a sub-agent of this assistant: you were given one task and you see nothing of \
the conversation. Do the task with the tools below and answer with what you found, short and \
complete; your last message is all that comes back. Move no money and ask nobody.
tools you may call: {tools}"""


class SubAgentRunner:
    """Implements SubAgents. A sub-agent has its own history and a share of the turn's budget; the
    rest, grant and ledger included, is the turn's."""

    def __init__(self, asker: ModelAsker, tools: Tools, skills: Skills, clock: Clock) -> None:
        self._steps = StepRunner(asker, ToolRunner(tools, LocalTools(skills, self)))
        self._clock = clock

    async def run(
        self,
        turn: Turn,
        so_far: Progress,
        call: ToolCall,
        arguments: dict[str, Any],
        link: TurnLink,
        *,
        among: int,
    ) -> ToolResult:
        depth = call.tool_call_id.count("/") + 1
        names = _tools_for(so_far, arguments["tool_sets"], depth)
        if depth > DEEPEST or not set(names) - {SUBAGENT}:
            message = "sub-agents have no sub-agents of their own below this one"
            if depth <= DEEPEST:
                message = "no tool of these sets may be called in this turn"
            return tool_outcomes.failure(call, ErrorReason.REQUEST_INVALID, message)
        async with so_far.slot.another() as slot:
            steps = int(arguments.get("max_steps", DEFAULT_STEPS))
            own = Progress(
                budget=so_far.budget.share(among, steps, self._clock.monotonic()),
                opened=so_far.opened,
                prompt=_prompt(turn, so_far.prompt, call, arguments["task"], names),
                route=Route(so_far.opened.candidates),
                callable_tools=names,
                parent=call.tool_call_id,
                slot=slot,
                open_calls=so_far.open_calls,
            )
            if own.budget.has_no_calls_left:
                return tool_outcomes.nothing_to_share(call)
            own.route.move_to(so_far.route.current.label)
            own.budget.skipped = link.past.told.nested_steps.get(call.tool_call_id, 0)
            try:
                await self._work(turn, own, NestedLink(link, call))
            finally:
                so_far.budget.charge_share(own.budget)
        return _result(call, own)

    async def _work(self, turn: Turn, own: Progress, link: TurnLink) -> None:
        while own.is_under_way(self._clock.monotonic(), link.stop.requested):
            own.extend(await self._steps.run_step(turn, own, link), goes_on=False)


@dataclass(frozen=True, slots=True)
class NestedLink:
    """Implements TurnLink for a sub-agent: of what it tells, only its calls are passed on."""

    outer: TurnLink
    call: ToolCall

    @property
    def past(self) -> Past:
        return self.outer.past

    @property
    def stop(self) -> StopSignal:
        return self.outer.stop

    @property
    def has_interjections(self) -> bool:
        return False

    def emit(self, payload: Payload) -> None:
        """Pass it on as something of the call that started the sub-agent, or drop it."""
        parent = self.call.tool_call_id
        match payload:
            case ToolCallStarted() | ToolCallProgressed() | ToolCallFinished():
                nested = payload.parent_tool_call_id or parent
                self.outer.emit(replace(payload, parent_tool_call_id=nested))
            case StepStarted():
                message = f"step {payload.step}"
                self.outer.emit(ToolCallProgressed(tool_call_id=parent, message=message))
            case ModelSwitched():
                self.outer.emit(payload)
            case _:
                pass

    def keep(self, checkpoint: Checkpoint) -> None:
        """A sub-agent begins anew when the turn is taken over."""

    async def stored(self) -> None:
        await self.outer.stored()

    async def step_stored(self, step: int) -> None:
        """Its steps are known by their calls."""
        await self.outer.stored()

    def take_interjections(self) -> Sequence[Interjection]:
        return ()

    async def close(self) -> None:
        """The turn itself is closed by its own loop."""


def _tools_for(so_far: Progress, tool_sets: Sequence[str], depth: int) -> tuple[str, ...]:
    """Those that the turn may call, of these sets, and that a sub-agent may."""
    allowed = set(so_far.callable_tools)

    def fits(definition: ToolDefinition) -> bool:
        if definition.name == SUBAGENT:
            return depth < DEEPEST
        return (
            definition.tool_set in tool_sets
            and not definition.is_fund_moving
            and definition.permission_tier <= PermissionTier.CONFIRM_ONCE
        )

    return tuple(
        each.name for each in so_far.prompt.definitions if each.name in allowed and fits(each)
    )


def _prompt(
    turn: Turn, parent: Prompt, call: ToolCall, task: str, names: tuple[str, ...]
) -> Prompt:
    """The same prefix as the turn's, so that it is read from the provider's cache; no history."""
    role = PromptBlock(number=8, key="subagent", text=_ROLE.format(tools=", ".join(names)))
    return assemble(
        blocks=(*(block for block in parent.blocks if block.is_prefix), role),
        definitions=parent.definitions,
        history=(),
        already_sent=frozenset(),
        text=task,
        turn_id=f"{turn.context.turn_id}/{call.tool_call_id}",
    )


def _result(call: ToolCall, own: Progress) -> ToolResult:
    """Its last words. They may repeat what others wrote, so they are marked as from outside."""
    said = [
        message.text
        for message in own.prompt.following
        if message.role is Role.ASSISTANT and message.text.strip()
    ]
    text = said[-1] if said else ""
    if own.finish_reason is FinishReason.BUDGET and not own.budget.steps:
        return tool_outcomes.nothing_to_share(call)
    if own.failure is not None and not text:
        return tool_outcomes.failure(call, own.failure.reason, own.failure.message)
    reason = own.finish_reason.value if own.finish_reason else "failed"
    data = {"text": text, "finish_reason": reason}
    return ToolResult(
        tool_call_id=ToolCallId(call.tool_call_id),
        name=call.name,
        outcome=ToolSuccess(data_json=dump_json(data), is_untrusted=True),
        envelope=ok(data),
    )
