"""Tool sets: named bundles that grants and skills may name, and what each includes of others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from minara_core.taxonomy import TOOL_SETS

MCP_PREFIX = "mcp:"
"""Sets of this prefix are declared by the server they belong to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """`includes` are sets that come with it. `empty_reason` says why a set has no tools yet;
    skills and grants may name it all the same."""

    name: str
    includes: tuple[str, ...] = ()
    empty_reason: str = ""


BUILTIN_SETS: tuple[ToolSet, ...] = (
    ToolSet(name="read"),
    ToolSet(
        name="analysis", includes=("read",), empty_reason="charts and indicators come with analysis"
    ),
    ToolSet(
        name="research",
        includes=("read", "web"),
        empty_reason="reports come with the research pipeline",
    ),
    ToolSet(name="trade"),
    ToolSet(name="perps", empty_reason="perpetual futures come with the next venues"),
    ToolSet(name="transfer"),
    ToolSet(name="autopilot", empty_reason="strategies come after mandates"),
    ToolSet(name="memory", empty_reason="memory is recalled into the prompt, not by tools yet"),
    ToolSet(name="file"),
    ToolSet(name="artifact", empty_reason="charts and documents come with the artifact store"),
    ToolSet(name="web", empty_reason="pages come with the egress client"),
    ToolSet(name="browser", empty_reason="no browser is driven in this version"),
    ToolSet(
        name="agents", empty_reason="agents that run by themselves come with the durable engine"
    ),
    ToolSet(name="workflow", empty_reason="workflows come with the durable engine"),
    ToolSet(name="turn"),
)


class ToolSets:
    """The declared sets. Refuses (ValueError) duplicates, unknown names, cycles, and a name of the
    taxonomy that nobody declared."""

    def __init__(self, declared: Sequence[ToolSet] = BUILTIN_SETS) -> None:
        table = {one.name: one for one in declared}
        if len(table) != len(declared):
            names = [one.name for one in declared]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"declared twice: {', '.join(twice)}")
        _check_names(table)
        self.by_name: Mapping[str, ToolSet] = MappingProxyType(table)
        self._expanded = {name: _reached(table, name, ()) for name in table}

    def __contains__(self, name: str) -> bool:
        return name in self.by_name or name.startswith(MCP_PREFIX)

    def expand(self, names: Iterable[str]) -> frozenset[str]:
        """These sets and all that they include; a name nobody declared stands for itself."""
        return frozenset(
            reached for name in names for reached in self._expanded.get(name, frozenset({name}))
        )


def _check_names(table: Mapping[str, ToolSet]) -> None:
    unknown = sorted(set(table) - set(TOOL_SETS))
    if unknown:
        raise ValueError(f"no such tool set: {', '.join(unknown)}")
    missing = sorted(set(TOOL_SETS) - set(table))
    if missing:
        raise ValueError(f"never declared: {', '.join(missing)}")
    for one in table.values():
        for included in one.includes:
            if included not in table:
                raise ValueError(f"{one.name} includes {included}, which does not exist")


def _reached(table: Mapping[str, ToolSet], name: str, path: tuple[str, ...]) -> frozenset[str]:
    if name in path:
        raise ValueError(f"tool sets include each other: {' → '.join((*path, name))}")
    included = (_reached(table, each, (*path, name)) for each in table[name].includes)
    return frozenset({name}).union(*included)


BUILTIN_TOOL_SETS = ToolSets()
