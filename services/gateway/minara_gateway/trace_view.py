"""One turn's trace for people and programs: its spans as a tree, and what they add up to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from rich.console import Group
from rich.text import Text
from rich.tree import Tree

from minara_core.money import add, canonical, parse_amount
from minara_runtime import genai
from minara_runtime.span_file import SpanRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSummary:
    """A turn in a few numbers. `cost_usd` is None when no model's price is known."""

    outcome: str
    reason: str
    duration_ms: float
    model_calls: int
    tool_calls: int
    denials: int
    input_tokens: int
    cache_read_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    services: tuple[str, ...]


def summary_of(spans: Sequence[SpanRecord]) -> TurnSummary:
    """What the spans of one turn add up to."""
    chats = _of(spans, genai.CHAT)
    tools = _of(spans, genai.EXECUTE_TOOL)
    agents = _of(spans, genai.INVOKE_AGENT)
    last: Mapping[str, object] = agents[-1].attributes if agents else {}
    costs = [str(c.attributes[genai.COST_USD]) for c in chats if genai.COST_USD in c.attributes]
    begin, end = min(s.start_ns for s in spans), max(s.end_ns for s in spans)
    cost = Decimal(0)
    for text in costs:
        cost = add(cost, parse_amount(text))
    return TurnSummary(
        outcome=str(last.get(genai.OUTCOME, "unknown")),
        reason=str(last.get(genai.REASON, last.get(genai.FINISH_REASON, ""))),
        duration_ms=(end - begin) / 1e6,
        model_calls=len(chats),
        tool_calls=len(tools),
        denials=sum(tool.attributes.get(genai.OUTCOME) == "denied" for tool in tools),
        input_tokens=_sum(chats, genai.INPUT_TOKENS),
        cache_read_tokens=_sum(chats, genai.CACHE_READ_TOKENS),
        output_tokens=_sum(chats, genai.OUTPUT_TOKENS),
        cost_usd=cost if costs else None,
        services=tuple(sorted({span.service for span in spans})),
    )


def trace_view(turn_id: str, spans: Sequence[SpanRecord]) -> Group:
    """A turn for a terminal: what it came to, then the tree."""
    return Group(Text(_headline(turn_id, summary_of(spans))), trace_tree(spans))


def trace_tree(spans: Sequence[SpanRecord]) -> Tree:
    """The spans of one turn as a tree; one whose parent is elsewhere hangs from the root."""
    ordered = sorted(spans, key=lambda span: span.start_ns)
    begin = ordered[0].start_ns
    several = len({span.service for span in ordered}) > 1
    known = {span.span_id for span in ordered}
    traces = dict.fromkeys(span.trace_id for span in ordered)
    root = Tree(Text(f"trace {', '.join(traces)}"))
    branches: dict[str, Tree] = {}
    waiting = list(ordered)
    while waiting:
        left: list[SpanRecord] = []
        for span in waiting:
            parent = span.parent_id
            if parent in known and parent not in branches:
                left.append(span)
                continue
            line = Text(_line(span, begin, with_service=several))
            branches[span.span_id] = branches.get(parent, root).add(line)
        waiting = left
    return root


def trace_json(turn_id: str, spans: Sequence[SpanRecord]) -> dict[str, Any]:
    """A turn as one JSON object; offsets and durations in milliseconds, money as text."""
    summary = summary_of(spans)
    begin = min(span.start_ns for span in spans)
    cost = summary.cost_usd
    return {
        "turn_id": turn_id,
        "outcome": summary.outcome,
        "reason": summary.reason,
        "duration_ms": summary.duration_ms,
        "model_calls": summary.model_calls,
        "tool_calls": summary.tool_calls,
        "denials": summary.denials,
        "input_tokens": summary.input_tokens,
        "cache_read_tokens": summary.cache_read_tokens,
        "output_tokens": summary.output_tokens,
        "cost_usd": None if cost is None else canonical(cost),
        "services": list(summary.services),
        "spans": [
            {
                "trace_id": span.trace_id,
                "span_id": span.span_id,
                "parent_id": span.parent_id,
                "name": span.name,
                "service": span.service,
                "instance": span.instance,
                "offset_ms": (span.start_ns - begin) / 1e6,
                "duration_ms": span.duration_ms,
                "has_failed": span.has_failed,
                "attributes": dict(span.attributes),
            }
            for span in sorted(spans, key=lambda span: span.start_ns)
        ],
    }


def _headline(turn_id: str, turn: TurnSummary) -> str:
    why = f" ({turn.reason})" if turn.reason else ""
    denied = f" ({turn.denials} denied)" if turn.denials else ""
    cached = f", {turn.cache_read_tokens:,} of them from the cache" if turn.input_tokens else ""
    cost = "of unknown price" if turn.cost_usd is None else f"${canonical(turn.cost_usd)}"
    return (
        f"turn {turn_id}: {turn.outcome}{why} in {turn.duration_ms:.1f} ms\n"
        f"model calls: {turn.model_calls}, tool calls: {turn.tool_calls}{denied}\n"
        f"{turn.input_tokens:,} tokens in{cached}, {turn.output_tokens:,} out, {cost}"
    )


def _line(span: SpanRecord, begin: int, *, with_service: bool) -> str:
    name = span.name.rpartition(".")[2] if genai.RPC_METHOD in span.attributes else span.name
    parts = [name, f"{span.duration_ms:.1f} ms", f"+{(span.start_ns - begin) / 1e6:.1f}"]
    parts += [span.service] if with_service else []
    parts += [fact for say in _SAYINGS for fact in say(span.attributes)]
    parts += ["FAILED"] if span.has_failed else []
    return "  ".join(parts)


def _prompt(found: Mapping[str, object]) -> list[str]:
    if genai.PROMPT_CHARACTERS not in found:
        return []
    return [
        f"prompt of {_number(found, genai.PROMPT_CHARACTERS):,} characters"
        f" ({_number(found, genai.PROMPT_SYSTEM_CHARACTERS):,} system),"
        f" {_number(found, genai.PROMPT_MESSAGES)} messages,"
        f" {_number(found, genai.PROMPT_TOOLS)} tools"
    ]


def _tokens(found: Mapping[str, object]) -> list[str]:
    if found.get(genai.OPERATION_NAME) != genai.CHAT or genai.INPUT_TOKENS not in found:
        return []
    told = [
        f"{_number(found, genai.INPUT_TOKENS):,} tokens in"
        f" ({_number(found, genai.CACHE_READ_TOKENS):,} cached),"
        f" {_number(found, genai.OUTPUT_TOKENS):,} out"
    ]
    if genai.COST_USD in found:
        told.append(f"${found[genai.COST_USD]}")
    return told


def _decision(found: Mapping[str, object]) -> list[str]:
    said = [
        f"{_DECISIONS[name]}{found[name]}"
        for name in _DECISIONS
        if found.get(name) not in {None, ""}
    ]
    answer = found.get(genai.RPC_RESPONSE, "OK")
    return said if answer == "OK" else [*said, str(answer)]


_DECISIONS: Mapping[str, str] = MappingProxyType(
    {
        genai.OUTCOME: "",
        genai.FINISH_REASON: "",
        genai.REASON: "",
        genai.GATE: "by gate ",
        genai.HTTP_RESPONSE: "HTTP ",
        genai.ERROR_TYPE: "",
    }
)
_SAYINGS: tuple[Callable[[Mapping[str, object]], list[str]], ...] = (_prompt, _tokens, _decision)


def _of(spans: Sequence[SpanRecord], operation: str) -> list[SpanRecord]:
    found = [span for span in spans if span.attributes.get(genai.OPERATION_NAME) == operation]
    return sorted(found, key=lambda span: span.start_ns)


def _sum(spans: Sequence[SpanRecord], name: str) -> int:
    return sum(_number(span.attributes, name) for span in spans)


def _number(found: Mapping[str, object], name: str) -> int:
    value = found.get(name, 0)
    return value if isinstance(value, int) else 0
