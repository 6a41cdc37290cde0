"""Tool calls, tool definitions, tool results, and the one envelope a model reads.

A tool result is one of five outcomes: success, failure (it ran and broke), denial (our gate
refused, it did not run), pending action (a person must decide), delegated (the orchestrator runs
it). The envelope is JSON text: `{"ok":true,"data":…}` or `{"ok":false,"error":"CODE: sentence"}`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from minara_core.actions import PendingAction
from minara_core.errors import MinaraError
from minara_core.ids import ToolCallId, TurnId
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import PermissionTier


class Executor(StrEnum):
    """Who runs a tool once its gates are passed."""

    TOOLS = "tools"
    ORCHESTRATOR = "orchestrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """What a model sees of a tool, and what a person may ask about it."""

    name: str
    description: str
    input_schema_json: str
    tool_set: str
    permission_tier: PermissionTier
    is_fund_moving: bool = False
    executor: Executor = Executor.TOOLS


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call a model asked for. `tool_call_id` is ours (`<step>.<index>`), never the provider's;
    `arguments_json` is the exact text the model wrote."""

    tool_call_id: ToolCallId
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSuccess:
    """`data_json` is the tool's answer; `is_untrusted` when it holds text from outside."""

    data_json: str
    is_untrusted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFailure:
    """The tool ran and broke. `reference_id` finds an unexpected one in the log."""

    reason: str
    message: str
    reference_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDenial:
    """A gate refused; nothing ran. `metadata` has the values the reason speaks of."""

    reason: DenialReason
    gate: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPending:
    """A person must decide on the stored action before anything happens."""

    action: PendingAction


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDelegated:
    """Gates passed and audited; the orchestrator runs this local tool itself."""


ToolOutcome = ToolSuccess | ToolFailure | ToolDenial | ToolPending | ToolDelegated


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    tool_call_id: ToolCallId
    name: str
    outcome: ToolOutcome
    envelope: str


def result_uri(turn_id: TurnId, call_id: ToolCallId) -> str:
    """Where `read_result` finds the whole of what came of a call."""
    return f"result://{turn_id}/{call_id}"


def dump_json(value: Any) -> str:
    """Compact JSON with stable key order and readable non-ASCII text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def ok(data: Any) -> str:
    """The envelope of a success. `data` is plain JSON; money in it is text."""
    return dump_json({"ok": True, "data": data})


def ok_json(data_json: str) -> str:
    """The same for data that is JSON text already."""
    return f'{{"data":{data_json},"ok":true}}'


def err(message: str) -> str:
    """The envelope of a failure or denial; `message` is `CODE: sentence`."""
    return dump_json({"ok": False, "error": message})


def err_from_exception(error: BaseException, reference_id: str) -> str:
    """A MinaraError speaks for itself; of anything else only the reference id is told."""
    if isinstance(error, MinaraError):
        return err(f"{error.reason}: {error.message}")
    return err(f"{ErrorReason.INTERNAL}: the tool broke; reference {reference_id}")
