"""The loop has a budget, and so has everything else."""

import pytest

from support.source import functions, length, name_of, python_files

FILE_LINES = 400
FUNCTION_LINES = 60
LOOP = {
    "services/orchestrator/minara_orchestrator/app/run_turn.py:TurnRunner.run_turn": 40,
    "services/orchestrator/minara_orchestrator/app/run_step.py:StepRunner.run_step": 60,
}
LONGER_FILES: dict[str, str] = {}
"""Path → reason. May only shrink."""
LONGER_FUNCTIONS: dict[str, str] = {}
"""Path:name → reason. May only shrink."""

SOURCES = python_files("libs", "services", "tests", "bench", "scripts")


def test_files_stay_within_the_budget() -> None:
    lengths = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in SOURCES}
    over = {name: lines for name, lines in lengths.items() if lines > FILE_LINES}
    assert set(over) == set(LONGER_FILES), over


def test_functions_stay_within_the_budget() -> None:
    over = {
        f"{name_of(path)}:{name}": length(node)
        for path in SOURCES
        for name, node in functions(path)
        if length(node) > FUNCTION_LINES and "migrations" not in path.parts
    }
    assert set(over) == set(LONGER_FUNCTIONS), over


@pytest.mark.parametrize(("place", "limit"), LOOP.items())
def test_the_loop_reads_in_one_sitting(place: str, limit: int) -> None:
    path, _, wanted = place.partition(":")
    found = [
        length(node)
        for file in SOURCES
        if name_of(file) == path
        for name, node in functions(file)
        if name == wanted
    ]
    assert found, f"{place} is gone: move its budget with it"
    assert found[0] <= limit
