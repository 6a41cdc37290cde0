"""Parts of a neutral view that all APIs share."""

from typing import Any

from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolDefinition
from minara_llm.wire.bodies import dump

_OPEN, _CLOSE = "<context>\n", "\n</context>"


def tool_of(name: str, description: Any, schema: Any) -> ToolDefinition:
    """A tool by what the wire says of it, which is neither its set nor its tier."""
    return ToolDefinition(
        name=name,
        description=str(description or ""),
        input_schema_json=dump(schema or {}),
        tool_set="",
        permission_tier=PermissionTier.READ_ONLY,
    )


def in_context_tags(text: str) -> str | None:
    """What stands in our tags, in a message that some API gives no role of its own."""
    if text.startswith(_OPEN) and text.endswith(_CLOSE):
        return text[len(_OPEN) : -len(_CLOSE)]
    return None
