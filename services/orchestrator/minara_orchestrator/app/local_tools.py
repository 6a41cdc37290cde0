"""Tools that are the loop itself. Their gates and audit lie in the tools service, which answers
such a call with `delegated`; only then does it run here."""

import json
from dataclasses import dataclass
from typing import Any, Protocol, cast

from minara_core.errors import MinaraError
from minara_core.events import SkillActivated
from minara_core.reasons import ErrorReason
from minara_core.tooling import ToolCall, ToolResult
from minara_orchestrator.app import tool_outcomes
from minara_orchestrator.app.ports import Skills
from minara_orchestrator.app.progress import Progress
from minara_orchestrator.app.turn_ports import TurnLink
from minara_orchestrator.domain.turn import Turn

SUBAGENT = "subagent"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOutcome:
    result: ToolResult
    callable_tools: tuple[str, ...] = ()
    is_question: bool = False


class SubAgents(Protocol):
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
        """Run a sub-agent to its end; `among` is how many begin at once, this one included."""
        ...


class LocalTools:
    def __init__(self, skills: Skills, sub_agents: SubAgents) -> None:
        self._skills = skills
        self._sub_agents = sub_agents

    async def run(
        self, turn: Turn, so_far: Progress, call: ToolCall, link: TurnLink, *, among: int
    ) -> LocalOutcome:
        """Run a delegated call. Its arguments were validated against its schema before."""
        arguments = cast("dict[str, Any]", json.loads(call.arguments_json))
        match call.name:
            case "activate_skills":
                return await self._activate_skills(turn, so_far, call, arguments, link)
            case "ask_user":
                question = {
                    "asked": True,
                    "question": arguments["question"],
                    "options": arguments.get("options", []),
                }
                return LocalOutcome(result=tool_outcomes.success(call, question), is_question=True)
            case name if name == SUBAGENT:
                result = await self._sub_agents.run(
                    turn, so_far, call, arguments, link, among=among
                )
                return LocalOutcome(result=result)
            case _:
                message = f"{call.name} does not run in this orchestrator"
                return LocalOutcome(
                    result=tool_outcomes.failure(call, ErrorReason.UNIMPLEMENTED, message)
                )

    async def _activate_skills(
        self,
        turn: Turn,
        so_far: Progress,
        call: ToolCall,
        arguments: dict[str, Any],
        link: TurnLink,
    ) -> LocalOutcome:
        opened = so_far.opened
        try:
            activation = await self._skills.activate(
                turn.context,
                cast("list[str]", arguments["skill_ids"]),
                catalog=opened.catalog,
                stage=opened.selection.stage,
            )
        except MinaraError as error:
            return LocalOutcome(result=tool_outcomes.failure(call, error.reason, error.message))
        for skill_id in activation.activated_skill_ids:
            link.emit(SkillActivated(skill_id=skill_id, reason="the model asked for it"))
        return LocalOutcome(
            result=tool_outcomes.success(call, {"note": activation.note}),
            callable_tools=activation.callable_tools,
        )
