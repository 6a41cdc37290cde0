"""A turn's spans as a tree."""

from io import StringIO

from rich.console import Console

from minara_gateway.trace_view import trace_tree
from minara_runtime.span_file import SpanRecord


def a_span(name: str, span_id: str, parent_id: str = "", start: int = 0) -> SpanRecord:
    return SpanRecord(
        trace_id="t1",
        span_id=span_id,
        parent_id=parent_id,
        name=name,
        service="minara",
        start_ns=start,
        end_ns=start + 2_000_000,
        status="OK",
        attributes={"gen_ai.tool.name": "get_price"} if name == "execute_tool" else {},
    )


def test_children_stand_below_their_parents_whatever_the_order() -> None:
    spans = [
        a_span("execute_tool", "c", "b", start=3),
        a_span("ExecuteTools", "b", "a", start=2),
        a_span("RunTurn", "a", start=1),
        a_span("orphan", "z", "gone", start=4),
    ]
    console = Console(file=StringIO(), width=100)
    console.print(trace_tree(spans))
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    depth = {
        name: next(line.index(name) for line in shown.splitlines() if name in line)
        for name in ("RunTurn", "ExecuteTools", "execute_tool", "orphan")
    }
    assert depth["RunTurn"] < depth["ExecuteTools"] < depth["execute_tool"]
    assert depth["orphan"] == depth["RunTurn"]
    assert "name=get_price" in shown
