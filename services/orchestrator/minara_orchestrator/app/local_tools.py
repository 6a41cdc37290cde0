"""Tools that are the loop itself. Their gates and audit lie in the tools service, which answers
such a call with `delegated`; only then does it run here."""

import json
from dataclasses import dataclass
from typing import Any, cast

from minara_core.reasons import ErrorReason
from minara_core.tooling import ToolCall, ToolFailure, ToolResult, ToolSuccess, dump_json, err, ok
from minara_orchestrator.app.open_turn import OpenedTurn
from minara_orchestrator.app.ports import Skills
from minara_orchestrator.domain.turn import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOutcome:
    result: ToolResult
    callable_tools: tuple[str, ...] = ()
    is_question: bool = False


class LocalTools:
    def __init__(self, skills: Skills) -> None:
        self._skills = skills

    async def run(self, turn: Turn, opened: OpenedTurn, call: ToolCall) -> LocalOutcome:
        """Run a delegated call. Its arguments were validated against its schema before."""
        arguments = cast("dict[str, Any]", json.loads(call.arguments_json))
        match call.name:
            case "activate_skills":
                return await self._activate_skills(turn, opened, call, arguments)
            case "ask_user":
                data = {"asked": True, "question": arguments["question"]}
                return LocalOutcome(result=_success(call, data), is_question=True)
            case _:
                message = f"{call.name} does not run in this orchestrator"
                return LocalOutcome(
                    result=ToolResult(
                        tool_call_id=call.tool_call_id,
                        name=call.name,
                        outcome=ToolFailure(reason=ErrorReason.UNIMPLEMENTED, message=message),
                        envelope=err(f"{ErrorReason.UNIMPLEMENTED}: {message}"),
                    )
                )

    async def _activate_skills(
        self, turn: Turn, opened: OpenedTurn, call: ToolCall, arguments: dict[str, Any]
    ) -> LocalOutcome:
        activation = await self._skills.activate(
            turn.context,
            cast("list[str]", arguments["skill_ids"]),
            catalog=opened.catalog,
            stage=opened.selection.stage,
        )
        return LocalOutcome(
            result=_success(call, {"note": activation.note}),
            callable_tools=activation.callable_tools,
        )


def _success(call: ToolCall, data: dict[str, Any]) -> ToolResult:
    return ToolResult(
        tool_call_id=call.tool_call_id,
        name=call.name,
        outcome=ToolSuccess(data_json=dump_json(data), is_untrusted=False),
        envelope=ok(data),
    )
