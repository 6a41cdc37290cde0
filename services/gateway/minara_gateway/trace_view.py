"""One turn's trace as a tree for a terminal: spans, their times, what they carried."""

from collections.abc import Sequence

from rich.tree import Tree

from minara_runtime.span_file import SpanRecord

_SHOWN = (
    "minara.turn_id",
    "gen_ai.request.model",
    "gen_ai.tool.name",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "minara.outcome",
    "minara.reason",
)


def trace_tree(spans: Sequence[SpanRecord]) -> Tree:
    """The spans of one trace as a tree; orphans hang from the root."""
    ordered = sorted(spans, key=lambda span: span.start_ns)
    known = {span.span_id for span in ordered}
    root = Tree(f"trace {ordered[0].trace_id}")
    branches: dict[str, Tree] = {}
    waiting = list(ordered)
    while waiting:
        left: list[SpanRecord] = []
        for span in waiting:
            parent = span.parent_id
            if parent in known and parent not in branches:
                left.append(span)
                continue
            branches[span.span_id] = branches.get(parent, root).add(_line(span))
        waiting = left
    return root


def _line(span: SpanRecord) -> str:
    facts = [
        f"{key.rpartition('.')[2]}={span.attributes[key]}"
        for key in _SHOWN
        if key in span.attributes
    ]
    return " ".join([f"{span.name}  {span.duration_ms:.1f} ms", *facts])
