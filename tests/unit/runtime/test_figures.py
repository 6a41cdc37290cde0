"""The figures are what the documents say, by names that are the conventions' or ours."""

import re
from pathlib import Path

from opentelemetry import semconv

from minara_runtime.figures import FIGURES
from support.source import ROOT


def test_the_page_lists_every_figure_and_no_other() -> None:
    text = (ROOT / "docs" / "observability.md").read_text("utf-8")
    table = text.partition("## Metrics")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(figure.name for figure in FIGURES)


def test_names_are_those_of_the_conventions_or_ours() -> None:
    folder = Path(semconv.__file__).parent
    known = {
        name
        for file in folder.rglob("*_metrics.py")
        for name in re.findall(
            r'^[A-Z_]+: Final = "([^"]+)"', file.read_text("utf-8"), re.MULTILINE
        )
    }
    unknown = {figure.name for figure in FIGURES} - known
    assert {name for name in unknown if not name.startswith("minara.")} == set()


def test_durations_are_in_seconds_with_bounds_and_counters_have_none() -> None:
    for figure in FIGURES:
        assert bool(figure.bounds) is (figure.kind == "histogram"), figure.name
        assert figure.bounds == tuple(sorted(figure.bounds)), figure.name
        is_time = figure.name.endswith((".duration", ".lag", "_token", "_chunk"))
        assert (figure.unit == "s") is is_time, figure.name
