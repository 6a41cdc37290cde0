"""The catalog as others see it: definitions in one order, their etag, and what does not work."""

import hashlib
from dataclasses import asdict, dataclass

from minara_core.tooling import ToolDefinition, dump_json
from minara_tools.domain.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableTool:
    name: str
    needs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """`etag` is the SHA-256 (hex) of the definitions, sorted by name."""

    definitions: tuple[ToolDefinition, ...]
    etag: str


def catalog_of(registry: ToolRegistry) -> Catalog:
    definitions = tuple(entry.definition() for entry in registry.entries.values())
    text = dump_json([asdict(definition) for definition in definitions])
    return Catalog(definitions=definitions, etag=hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSet:
    """A tool set as people see it; `empty_reason` is empty when it has tools."""

    name: str
    includes: tuple[str, ...]
    empty_reason: str


def listed_sets(registry: ToolRegistry) -> tuple[ListedSet, ...]:
    """Every declared set, and those of tools that brought their own, with why one is empty."""
    filled = {entry.tool_set for entry in registry.entries.values()}
    declared = registry.tool_sets.by_name
    own = tuple(
        ListedSet(
            name=one.name,
            includes=one.includes,
            empty_reason="" if one.name in filled else one.empty_reason or "nothing is set up here",
        )
        for one in declared.values()
    )
    brought = sorted(filled - set(declared))
    return (*own, *(ListedSet(name=name, includes=(), empty_reason="") for name in brought))


def unavailable_tools(registry: ToolRegistry) -> tuple[UnavailableTool, ...]:
    """Tools that are registered and do not work here now."""
    needs = ((entry.name, entry.check()) for entry in registry.entries.values())
    return tuple(UnavailableTool(name=name, needs=need) for name, need in needs if need)
