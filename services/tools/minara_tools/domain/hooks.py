"""The gates before a tool call, in one order for all calls; the first refusal wins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from minara_core.tooling import ToolCall
from minara_tools.domain.arguments import validated
from minara_tools.domain.ledger import Selection, TurnLedger
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.registry import ToolEntry, ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class GateInput:
    """One call and all that the gates may look at.

    `entry` is None for an unknown tool; `arguments` is None then, and when `refused_arguments` says
    what is wrong with them.
    """

    call: ToolCall
    entry: ToolEntry | None
    arguments: BaseModel | None
    refused_arguments: ToolCallBlockedError | None
    ledger: TurnLedger
    selection: Selection


BeforeToolCallHook = Callable[[GateInput], None]
"""Returns, or raises ToolCallBlockedError. A hook that raises anything else denies too."""


def gate_input(
    call: ToolCall, registry: ToolRegistry, ledger: TurnLedger, selection: Selection
) -> GateInput:
    """What the gates see of a call."""
    entry = registry.entries.get(call.name)
    arguments: BaseModel | None = None
    refused: ToolCallBlockedError | None = None
    if entry is not None:
        try:
            arguments = validated(entry, call.arguments_json)
        except ToolCallBlockedError as error:
            refused = error
    return GateInput(
        call=call,
        entry=entry,
        arguments=arguments,
        refused_arguments=refused,
        ledger=ledger,
        selection=selection,
    )


def pass_gates(hooks: Sequence[BeforeToolCallHook], given: GateInput) -> None:
    """Ask each hook in order. Raises what the first refusing one raises."""
    for hook in hooks:
        hook(given)
