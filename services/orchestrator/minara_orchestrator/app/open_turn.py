"""Open a turn: three peers asked at once, each failing by its kind (architecture.md §7)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from minara_core.actions import PendingAction
from minara_core.errors import DeadlineExceeded, MinaraError, Unavailable
from minara_core.taxonomy import LifecycleStage, PermissionTier, TradingState
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.goal_ports import Goals
from minara_orchestrator.app.ports import (
    Catalog,
    Models,
    Selection,
    Skills,
    Standing,
    Tools,
    TurnMaterial,
    Workspace,
)
from minara_orchestrator.domain.blocks import Signal, outcome_block, signal_block
from minara_orchestrator.domain.checkpoint import Opening
from minara_orchestrator.domain.goal import Goal, goal_block
from minara_orchestrator.domain.model_policy import Candidate
from minara_orchestrator.domain.prompt import Prompt, PromptBlock, assemble
from minara_orchestrator.domain.turn import DecidedInput, Turn, UserInput, input_text

T = TypeVar("T")

OPENING_TRIES = 2
DECISION_TRIES = 4
"""How often tools is asked for the decision that a turn tells: without it there is no such turn."""

_NO_SELECTION = Selection(
    catalog_block="",
    skills=(),
    playbook_block="",
    scenario_ids=(),
    stage=LifecycleStage.EVALUATE,
    callable_tools=(),
    risk_ceiling=PermissionTier.READ_ONLY,
)
_NO_STANDING = Standing(
    trading_state=TradingState.HALTED,
    pending_actions=(),
    untold_outcomes=(),
    catalog_etag="",
    unavailable_tools=(),
    ceiling=PermissionTier.READ_ONLY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTurn:
    """What the peers said, the session's goal if it is active, and the prompt it makes."""

    material: TurnMaterial
    selection: Selection
    standing: Standing
    catalog: Catalog
    candidates: tuple[Candidate, ...]
    prompt: Prompt
    notices: tuple[str, ...]
    goal: Goal | None = None

    @property
    def ceiling(self) -> PermissionTier:
        return min(self.selection.risk_ceiling, self.standing.ceiling)

    def as_first_opened(self, opening: Opening) -> "OpenedTurn":
        """The same with what the turn was allowed when it began."""
        selection = replace(self.selection, stage=opening.stage, risk_ceiling=opening.risk_ceiling)
        return replace(self, selection=selection)

    def decided_action(self, turn: Turn) -> PendingAction | None:
        """The action whose decision this turn tells, as the tools service recorded it."""
        if not isinstance(turn.input, DecidedInput):
            return None
        return next(
            (
                action
                for action in self.standing.untold_outcomes
                if action.pending_action_id == turn.input.pending_action_id
            ),
            None,
        )


class TurnOpening:
    def __init__(
        self, workspace: Workspace, skills: Skills, tools: Tools, models: Models, goals: Goals
    ) -> None:
        self._workspace = workspace
        self._skills = skills
        self._tools = tools
        self._models = models
        self._goals = goals
        self._catalog_block = ""

    async def open(self, turn: Turn, *, validate_only: bool = False) -> OpenedTurn:
        """Ask workspace, skills and tools at once, with who is to speak, and build the prompt.

        Without workspace there is no turn: its error is raised. Without skills or tools the turn
        goes on with less, and says so; one that tells a decision has nothing to say without tools.
        """
        context, text = turn.context, input_text(turn.input)
        catalog, notices = await self._catalog()
        decided = turn.input.pending_action_id if isinstance(turn.input, DecidedInput) else None
        tells_decision = decided is not None
        async with asyncio.TaskGroup() as group:
            prepared = group.create_task(_outcome(lambda: self._workspace.prepare(context, text)))
            selected = group.create_task(
                _outcome(
                    lambda: self._skills.select(
                        context,
                        text,
                        catalog=catalog,
                        is_human_message=isinstance(turn.input, UserInput),
                        validate_only=validate_only,
                    )
                )
            )
            opened = group.create_task(
                _outcome(
                    lambda: self._tools.open_turn(
                        context,
                        message=text,
                        decided_action_id=decided,
                        validate_only=validate_only,
                    ),
                    tries=DECISION_TRIES if tells_decision else OPENING_TRIES,
                )
            )
            speaking = group.create_task(self._models.candidates(context.user_id))
            standing_goal = group.create_task(self._active_goal(context))
        material = _required(prepared.result())
        # Without the skills service the prefix stays what it was: only what is active is missing.
        without_skills = replace(_NO_SELECTION, catalog_block=self._catalog_block)
        selection = _or_less(selected.result(), without_skills, "skills", notices)
        self._catalog_block = selection.catalog_block
        standing = (
            _required(opened.result())
            if tells_decision
            else _or_less(opened.result(), _NO_STANDING, "tools", notices)
        )
        if standing.catalog_etag:
            self._tools.expire_catalog(standing.catalog_etag)
        return OpenedTurn(
            material=material,
            selection=selection,
            standing=standing,
            catalog=catalog,
            candidates=speaking.result(),
            prompt=_prompt(
                turn, text, material, selection, standing, catalog, standing_goal.result()
            ),
            goal=standing_goal.result(),
            notices=(*notices, *_of_speakers(speaking.result()), *material.notices),
        )

    async def _active_goal(self, context: TurnContext) -> Goal | None:
        """A turn without its goal is better than none: an error is none."""
        try:
            goal = await self._goals.get(context.session_id, context.user_id)
        except MinaraError:
            return None
        return goal if goal is not None and goal.is_active else None

    async def _catalog(self) -> tuple[Catalog, list[str]]:
        try:
            return await self._tools.catalog(), []
        except (Unavailable, DeadlineExceeded):
            return Catalog(definitions=(), etag=""), []


def _of_speakers(candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    if not candidates[0].is_degraded:
        return ()
    return ("no language model can be reached; fixed rules read for you and move nothing",)


async def _outcome(
    call: Callable[[], Awaitable[T]], *, tries: int = OPENING_TRIES
) -> T | MinaraError:
    """The value or the typed failure, so that one peer's failure does not cancel the others.

    A replica that stands still is not known to be gone for some seconds: the next call goes to
    another one. Every call of an opening may be made again.
    """
    while True:
        tries -= 1
        try:
            return await call()
        except MinaraError as error:
            if not tries or not isinstance(error, DeadlineExceeded):
                return error


def _required(outcome: T | MinaraError) -> T:
    if isinstance(outcome, MinaraError):
        raise outcome
    return outcome


def _or_less(outcome: T | MinaraError, less: T, peer: str, notices: list[str]) -> T:
    if isinstance(outcome, Unavailable | DeadlineExceeded):
        notices.append(f"the {peer} service does not answer; this turn does without it")
        return less
    return _required(outcome)


def _prompt(
    turn: Turn,
    text: str,
    material: TurnMaterial,
    selection: Selection,
    standing: Standing,
    catalog: Catalog,
    goal: Goal | None,
) -> Prompt:
    signal = Signal(
        now=turn.start_time,
        origin=turn.context.origin,
        stage=selection.stage,
        ceiling=min(selection.risk_ceiling, standing.ceiling),
        trading_state=standing.trading_state,
        callable_tools=selection.callable_tools,
        active_skill_ids=tuple(skill.skill_id for skill in selection.skills),
        unavailable_tools=standing.unavailable_tools,
        heartbeat=material.heartbeat,
    )
    decided = turn.input.pending_action_id if isinstance(turn.input, DecidedInput) else ""
    outcomes = [
        outcome_block(action, is_decision=action.pending_action_id == decided)
        for action in sorted(
            standing.untold_outcomes, key=lambda action: action.pending_action_id == decided
        )
    ]
    blocks = (
        PromptBlock(number=1, key="identity", text=material.identity_block),
        PromptBlock(number=2, key="catalog", text=selection.catalog_block),
        PromptBlock(number=3, key="memory", text=material.memory_block),
        PromptBlock(number=4, key="bootstrap", text=material.bootstrap_block),
        PromptBlock(number=4, key="notices", text="\n".join(material.notices)),
        *(
            PromptBlock(number=5, key=f"skill:{skill.skill_id}", text=skill.prompt)
            for skill in selection.skills
        ),
        PromptBlock(number=6, key="playbooks", text=selection.playbook_block),
        PromptBlock(number=7, key="personalization", text=material.personalization_block),
        PromptBlock(number=7, key="goal", text="" if goal is None else goal_block(goal)),
        signal_block(signal, standing.pending_actions),
        *outcomes,
    )
    return assemble(
        blocks=blocks,
        definitions=catalog.definitions,
        history=material.history,
        already_sent=material.sent_blocks,
        text=text,
        turn_id=turn.context.turn_id,
        turn_count=material.turn_count,
    )
