"""Tool sets: declared once, composed without cycles, empty ones with a reason."""

import pytest

from minara_core.taxonomy import TOOL_SETS, Origin
from minara_tools.domain.catalog import listed_sets
from minara_tools.domain.local_tools import local_tools
from minara_tools.domain.permission import allowed_tool_sets
from minara_tools.domain.registry import ToolRegistry
from minara_tools.domain.tool_sets import BUILTIN_SETS, ToolSet, ToolSets
from minara_tools.toolsets.catalog import builtin_tools
from support.clock import FixedClock
from support.tools.entries import a_tool
from support.tools.venue import FakeVenue
from support.tools_world import FakeFiles, FakeMarket


def declared(*changed: ToolSet) -> list[ToolSet]:
    names = {one.name for one in changed}
    return [*(one for one in BUILTIN_SETS if one.name not in names), *changed]


def test_every_set_of_the_taxonomy_is_declared() -> None:
    assert {one.name for one in BUILTIN_SETS} == set(TOOL_SETS)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ([*BUILTIN_SETS, ToolSet(name="read")], "declared twice: read"),
        ([*BUILTIN_SETS, ToolSet(name="swaps")], "no such tool set: swaps"),
        (BUILTIN_SETS[1:], "never declared: read"),
        (declared(ToolSet(name="web", includes=("swaps",))), "includes swaps"),
        (declared(ToolSet(name="web", includes=("web",))), "web → web"),
        (
            declared(ToolSet(name="web", includes=("research",))),
            "include each other",
        ),
    ],
)
def test_a_wrong_declaration_is_refused_at_start(sets: list[ToolSet], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ToolSets(sets)


def test_a_set_brings_what_it_includes_and_what_that_includes() -> None:
    sets = ToolSets(declared(ToolSet(name="agents", includes=("research",))))
    assert sets.expand(["agents"]) == {"agents", "research", "read", "web"}
    assert sets.expand(["trade", "mcp:fish", "unheard"]) == {"trade", "mcp:fish", "unheard"}


def test_a_grant_for_a_composed_set_covers_its_parts() -> None:
    def allowed(origin: Origin, *, is_decision: bool = False) -> frozenset[str]:
        return allowed_tool_sets(
            origin=origin,
            opted_in=False,
            granted=["research"],
            asked=TOOL_SETS,
            is_decision=is_decision,
        )

    assert allowed(Origin.HTTP) == {"research", "read", "web"}
    assert allowed(Origin.HTTP, is_decision=True) == {"read"}
    assert allowed(Origin.CRON) == {"read", "web"}


def test_a_registry_refuses_a_tool_of_a_set_nobody_declared() -> None:
    with pytest.raises(ValueError, match="no tool set swaps"):
        ToolRegistry((a_tool("odd", tool_set="swaps"),))


def test_a_set_without_tools_says_why_and_one_with_tools_does_not() -> None:
    clock = FixedClock()
    market = FakeMarket(clock)
    entries = builtin_tools(
        market=market, venue=FakeVenue(market, clock), files=FakeFiles(), clock=clock
    )
    registry = ToolRegistry((*entries, *local_tools(), a_tool("fish", tool_set="mcp:fish")))
    filled = {entry.tool_set for entry in registry.entries.values()}
    listed = listed_sets(registry)
    assert {one.name for one in listed} == {*TOOL_SETS, "mcp:fish"}
    for one in listed:
        assert bool(one.empty_reason) is (one.name not in filled), one
