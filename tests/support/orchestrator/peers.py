"""Fakes of the orchestrator's peers; they hold state and answer from it."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from typing_extensions import override

from minara_core.actions import PendingAction
from minara_core.errors import MinaraError
from minara_core.events import StepStarted
from minara_core.ids import PendingActionId, ToolCallId, TurnId
from minara_core.taxonomy import LifecycleStage, PermissionTier, TradingState
from minara_core.tooling import ToolCall, ToolDefinition, ToolResult, ToolSuccess, ok
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.ports import (
    Activation,
    Catalog,
    Selection,
    SkillPrompt,
    Standing,
    ToolBatch,
    ToolFinished,
    ToolProgress,
    TurnMaterial,
)
from minara_orchestrator.domain.checkpoint import Checkpoint
from minara_orchestrator.domain.history import History, HistoryTurn
from minara_orchestrator.domain.turn import Committed, TurnRecord


@dataclass
class FakeWorkspace:
    """Keeps committed turns and returns their messages as history, as the real one does."""

    identity_block: str = "You are Minara."
    memory_block: str = "USER.md: prefers spot."
    spent_today_usd: Decimal = Decimal(0)
    records: dict[TurnId, TurnRecord] = field(default_factory=dict[TurnId, TurnRecord])
    prepare_error: MinaraError | None = None
    commit_errors: list[MinaraError] = field(default_factory=list[MinaraError])

    async def prepare(self, context: TurnContext, message: str) -> TurnMaterial:
        if self.prepare_error is not None:
            raise self.prepare_error
        of_session = [
            record
            for record in self.records.values()
            if record.turn.context.session_id == context.session_id
        ]
        history, sent = _kept(of_session)
        return TurnMaterial(
            identity_block=self.identity_block,
            memory_block=self.memory_block,
            bootstrap_block="",
            notices=(),
            heartbeat="",
            personalization_block="",
            history=history,
            sent_blocks=sent,
            turn_count=len(of_session),
            commit_token="token",
            spent_today_usd=self.spent_today_usd,
        )

    async def commit(self, record: TurnRecord) -> Committed:
        if self.commit_errors:
            raise self.commit_errors.pop(0)
        turn_id = record.turn.context.turn_id
        standing = self.records.setdefault(turn_id, record)
        return Committed(
            turn_number=list(self.records).index(turn_id) + 1,
            state=standing.state,
            finish_reason=standing.finish_reason,
            usage=standing.usage,
        )


def _kept(records: Sequence[TurnRecord]) -> tuple[History, frozenset[str]]:
    """The history that these turns leave, cut as the newest compaction says, and its blocks."""
    history: History = ()
    sent: frozenset[str] = frozenset()
    for record in records:
        if record.compaction is not None:
            history = record.compaction.history
            sent = frozenset(record.compaction.sent_blocks)
        turn_id = record.turn.context.turn_id
        history = (*history, HistoryTurn(turn_id=turn_id, messages=record.messages))
        sent |= frozenset(record.sent_blocks)
    return history, sent


@dataclass
class FakeSkills:
    callable_tools: tuple[str, ...] = ("get_price", "buy_token")
    stage: LifecycleStage = LifecycleStage.DECIDE
    skills: tuple[SkillPrompt, ...] = (
        SkillPrompt(skill_id="core.assistant", prompt="Help plainly.", reason="always active"),
    )
    note: str = "skill trade.spot is active"
    error: MinaraError | None = None

    async def select(
        self,
        context: TurnContext,
        message: str,
        *,
        catalog: Catalog,
        is_human_message: bool,
        validate_only: bool = False,
    ) -> Selection:
        if self.error is not None:
            raise self.error
        return Selection(
            catalog_block="skills: core.assistant",
            skills=self.skills,
            playbook_block="",
            scenario_ids=(),
            stage=self.stage,
            callable_tools=self.callable_tools,
            risk_ceiling=PermissionTier.ALWAYS_CONFIRM,
        )

    async def activate(
        self,
        context: TurnContext,
        skill_ids: Sequence[str],
        *,
        catalog: Catalog,
        stage: LifecycleStage,
    ) -> Activation:
        return Activation(
            note=self.note,
            callable_tools=("sell_token",),
            activated_skill_ids=tuple(skill_ids),
        )


def a_definition(name: str, tier: PermissionTier = PermissionTier.READ_ONLY) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=f"does {name}",
        input_schema_json='{"type":"object"}',
        tool_set="read",
        permission_tier=tier,
    )


def answers(call: ToolCall) -> ToolResult:
    """What a fake tool answers unless told otherwise: its own arguments."""
    return ToolResult(
        tool_call_id=call.tool_call_id,
        name=call.name,
        outcome=ToolSuccess(data_json=call.arguments_json, is_untrusted=False),
        envelope=ok({"tool": call.name}),
    )


@dataclass
class FakeTools:
    definitions: tuple[ToolDefinition, ...] = (
        a_definition("buy_token", PermissionTier.ALWAYS_CONFIRM),
        a_definition("get_price"),
    )
    respond: Callable[[ToolCall], ToolResult | None] = answers
    pending_actions: tuple[PendingAction, ...] = ()
    untold_outcomes: tuple[PendingAction, ...] = ()
    batches: list[ToolBatch] = field(default_factory=list[ToolBatch])
    open_error: MinaraError | None = None
    execute_error: MinaraError | None = None
    interjected: list[tuple[str, TurnId]] = field(default_factory=list[tuple[str, TurnId]])

    async def catalog(self) -> Catalog:
        return Catalog(definitions=self.definitions, etag="tools-1")

    def expire_catalog(self, etag: str) -> None:
        """The list here never changes."""

    async def open_turn(
        self,
        context: TurnContext,
        *,
        message: str,
        decided_action_id: PendingActionId | None,
        validate_only: bool = False,
    ) -> Standing:
        if self.open_error is not None:
            raise self.open_error
        return Standing(
            trading_state=TradingState.ACTIVE,
            pending_actions=self.pending_actions,
            untold_outcomes=self.untold_outcomes,
            catalog_etag="tools-1",
            unavailable_tools=(),
            ceiling=PermissionTier.ALWAYS_CONFIRM,
        )

    async def interject(self, context: TurnContext, message: str, into: TurnId) -> None:
        if self.open_error is not None:
            raise self.open_error
        self.interjected.append((message, into))

    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        self.batches.append(batch)
        if self.execute_error is not None:
            raise self.execute_error
        for call in batch.calls:
            result = self.respond(call)
            if result is not None:
                yield ToolFinished(result=result, duration_ms=1)


@dataclass
class RememberingTools(FakeTools):
    """Answers a call that it knows with its recorded result, as the tools service does. `ran` are
    those that it did not know, `seen` the arguments that came under each id."""

    recorded: dict[ToolCallId, ToolResult] = field(default_factory=dict[ToolCallId, ToolResult])
    ran: list[ToolCall] = field(default_factory=list[ToolCall])
    seen: dict[ToolCallId, list[str]] = field(default_factory=dict[ToolCallId, list[str]])

    @override
    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        self.batches.append(batch)
        for call in batch.calls:
            self.seen.setdefault(call.tool_call_id, []).append(call.arguments_json)
            if call.tool_call_id not in self.recorded:
                self.ran.append(call)
                self.recorded[call.tool_call_id] = answers(call)
            yield ToolFinished(result=self.recorded[call.tool_call_id], duration_ms=1)

    def known_at(self, told: Sequence[object]) -> dict[ToolCallId, ToolResult]:
        """What may be recorded when only so much of a turn was stored: calls that only read may
        have gone out in the step after the last one that was told, others once they were kept."""
        steps = [each.step for each in told if isinstance(each, StepStarted)]
        kept = {
            call.tool_call_id
            for each in told
            if isinstance(each, Checkpoint)
            for message in each.messages
            for call in message.tool_calls
        }
        reads = {each.name for each in self.definitions if each.permission_tier.name == "READ_ONLY"}
        latest = max(steps, default=0) + 1
        return {
            call: result
            for call, result in self.recorded.items()
            if call in kept or (result.name in reads and int(call.partition(".")[0]) <= latest)
        }
