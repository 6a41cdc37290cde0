"""A turn's spans as a tree, and what they add up to."""

from collections.abc import Mapping
from io import StringIO

from rich.console import Console, RenderableType

from minara_gateway.trace_view import trace_json, trace_tree, trace_view
from minara_runtime import genai
from minara_runtime.span_file import SpanRecord

CHAT = {
    genai.OPERATION_NAME: "chat",
    genai.PROMPT_CHARACTERS: 12_345,
    genai.PROMPT_SYSTEM_CHARACTERS: 10_000,
    genai.PROMPT_MESSAGES: 3,
    genai.PROMPT_TOOLS: 17,
    genai.INPUT_TOKENS: 3_000,
    genai.CACHE_READ_TOKENS: 2_500,
    genai.OUTPUT_TOKENS: 40,
    genai.COST_USD: "0.0012",
}
DENIED = {
    genai.OPERATION_NAME: "execute_tool",
    genai.TOOL_NAME: "buy_token",
    genai.OUTCOME: "denied",
    genai.REASON: "TRADING_HALTED",
    genai.GATE: "trading_state",
}
AGENT = {
    genai.OPERATION_NAME: "invoke_agent",
    genai.OUTCOME: "completed",
    genai.FINISH_REASON: "stop",
}


def a_span(
    name: str,
    span_id: str,
    parent_id: str = "",
    start: int = 0,
    attributes: Mapping[str, object] | None = None,
    service: str = "minara",
) -> SpanRecord:
    return SpanRecord(
        trace_id="t1",
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        service=service,
        start_ns=start,
        end_ns=start + 2_000_000,
        status="UNSET",
        attributes=attributes or {},
    )


def shown(view: RenderableType) -> str:
    console = Console(file=StringIO(), width=250)
    console.print(view)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_children_stand_below_their_parents_whatever_the_order() -> None:
    spans = [
        a_span("execute_tool", "c", "b", start=3),
        a_span("ExecuteTools", "b", "a", start=2),
        a_span("RunTurn", "a", start=1),
        a_span("elsewhere", "z", "gone", start=4),
    ]
    text = shown(trace_tree(spans))
    depth = {
        name: next(line.index(name) for line in text.splitlines() if name in line)
        for name in ("RunTurn", "ExecuteTools", "execute_tool", "elsewhere")
    }
    assert depth["RunTurn"] < depth["ExecuteTools"] < depth["execute_tool"]
    assert depth["elsewhere"] == depth["RunTurn"]


def test_a_turn_shows_prompt_sizes_gates_calls_timings_and_cost() -> None:
    spans = [
        a_span("invoke_agent minara", "a", attributes=AGENT),
        a_span("chat acme-1", "b", "a", start=1_000_000, attributes=CHAT),
        a_span("execute_tool buy_token", "c", "a", start=5_500_000, attributes=DENIED),
        a_span("chat acme-1", "d", "a", start=8_000_000, attributes=CHAT),
    ]
    text = shown(trace_view("turn-1", spans))
    assert "turn turn-1: completed (stop) in 10.0 ms" in text
    assert "model calls: 2, tool calls: 1 (1 denied)" in text
    assert "6,000 tokens in, 5,000 of them from the cache, 80 out, $0.0024" in text
    assert "prompt of 12,345 characters (10,000 system), 3 messages, 17 tools" in text
    assert "3,000 tokens in (2,500 cached), 40 out  $0.0012" in text
    assert "2.0 ms  +5.5  denied  TRADING_HALTED  by gate trading_state" in text


def test_services_are_named_where_there_are_several() -> None:
    one = [a_span("a", "a"), a_span("b", "b", "a")]
    two = [a_span("a", "a", service="gateway"), a_span("b", "b", "a", service="tools")]
    assert "minara" not in shown(trace_tree(one))
    assert "+0.0  tools" in shown(trace_tree(two))


def test_nothing_in_a_span_is_taken_for_markup() -> None:
    text = shown(trace_tree([a_span("[bold]x[/bold] [/]", "a")]))
    assert "[bold]x[/bold] [/]" in text


def test_a_program_gets_the_same_as_one_object() -> None:
    spans = [
        a_span("chat acme-1", "b", "a", start=1_000_000, attributes=CHAT, service="orchestrator"),
        a_span("invoke_agent minara", "a", attributes=AGENT, service="orchestrator"),
    ]
    found = trace_json("turn-1", spans)
    assert found["turn_id"] == "turn-1"
    assert (found["outcome"], found["cost_usd"], found["input_tokens"]) == (
        "completed",
        "0.0012",
        3_000,
    )
    first, second = found["spans"]
    assert (first["name"], first["offset_ms"], first["parent_id"]) == ("invoke_agent minara", 0, "")
    assert (second["name"], second["offset_ms"], second["parent_id"]) == ("chat acme-1", 1, "a")
