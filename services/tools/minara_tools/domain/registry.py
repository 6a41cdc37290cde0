"""What a tool is, and the one table of all tools."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from minara_core.actions import ActionPreview, ResolvedOrder
from minara_core.ids import SessionId, ToolCallId, TurnId, UserId
from minara_core.lexicon_terms import Direction
from minara_core.named_moves import NamedMove
from minara_core.taxonomy import Origin, PermissionTier
from minara_core.tooling import Executor, ToolDefinition, dump_json
from minara_tools.domain.tool_sets import BUILTIN_TOOL_SETS, ToolSets


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Who calls, from where. `progress` tells the person how far a long call is (0 to 1)."""

    user_id: UserId
    session_id: SessionId
    turn_id: TurnId
    tool_call_id: ToolCallId
    origin: Origin
    progress: Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """What a money tool would do: the complete order, and what the venue expects of it."""

    order: ResolvedOrder
    preview: ActionPreview


ToolHandler = Callable[[Any, ToolContext], Awaitable[object]]
"""`async (validated arguments, context) -> plain JSON value`; raises ToolFailed or MinaraError."""

QuoteFunction = Callable[[Any, ToolContext], Awaitable[Quotation]]
"""`async (validated arguments, context) -> Quotation`; moves nothing."""


NamingFunction = Callable[[Any], NamedMove]
"""`(validated arguments) -> the move in the words of a person`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One tool. A money tool has `quote` and no handler: one executor sends the stored order of
    every tool. Any other has a handler, unless the orchestrator runs it.

    `arguments` forbids extra fields. `check` returns what is missing for the tool to work here, or
    None. `untrusted_output` is false only for answers made wholly from our own books. `direction`
    is what a money tool does in the words of a person, or `names` where its arguments say more than
    symbol and amount; without either every call of it is refused.
    `may_exit` when it can make an order that only reduces exposure. `may_bring_outside_text` when
    a tool of set `read` may answer with what tools of other sets have read.
    """

    name: str
    tool_set: str
    description: str
    arguments: type[BaseModel]
    permission_tier: PermissionTier
    handler: ToolHandler | None = None
    quote: QuoteFunction | None = None
    is_async: bool = True
    check: Callable[[], str | None] = lambda: None
    untrusted_output: bool = True
    executor: Executor = Executor.TOOLS
    timeout_seconds: float = 20.0
    direction: Direction | None = None
    names: NamingFunction | None = None
    may_exit: bool = False
    may_bring_outside_text: bool = False

    @property
    def is_fund_moving(self) -> bool:
        return self.quote is not None

    def definition(self) -> ToolDefinition:
        return ToolDefinition(
            name=self.name,
            description=self.description,
            input_schema_json=dump_json(self.arguments.model_json_schema()),
            tool_set=self.tool_set,
            permission_tier=self.permission_tier,
            is_fund_moving=self.is_fund_moving,
            executor=self.executor,
        )


class ToolRegistry:
    """All tools by name. Built once; refuses duplicates and unknown tool sets."""

    def __init__(
        self, entries: Iterable[ToolEntry], *, tool_sets: ToolSets = BUILTIN_TOOL_SETS
    ) -> None:
        table: dict[str, ToolEntry] = {}
        for entry in entries:
            if entry.name in table:
                raise ValueError(f"two tools are named {entry.name}")
            if entry.tool_set not in tool_sets:
                raise ValueError(f"{entry.name}: no tool set {entry.tool_set}")
            if entry.is_fund_moving and entry.handler is not None:
                raise ValueError(f"{entry.name}: a money tool only quotes")
            table[entry.name] = entry
        self.entries: Mapping[str, ToolEntry] = MappingProxyType(dict(sorted(table.items())))
        self.tool_sets = tool_sets
