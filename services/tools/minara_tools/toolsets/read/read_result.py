"""Reading a result again that was cut, or that the conversation keeps only as one line."""

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.ids import ToolCallId, TurnId
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import dump_json
from minara_tools.app.kept_results import KeptResults
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolContext, ToolEntry

MAX_PART_BYTES = 16 * 1024
"""Of one part as JSON, so that the answer itself is never cut."""

_URI = re.compile(r"result://(?P<turn>[^/\s]{1,100})/(?P<call>\S{1,100})")


class ReadResultArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: Annotated[
        str,
        Field(
            min_length=1,
            max_length=220,
            description="Exactly as the conversation names it, such as result://<turn>/<call>.",
        ),
    ]
    offset: Annotated[
        int, Field(ge=0, description="Characters to skip; `next_offset` of the part before.")
    ] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PART_BYTES, description="Characters at most.")] = (
        MAX_PART_BYTES
    )


def read_result(kept: KeptResults) -> ToolEntry:
    """The tool `read_result`."""

    async def run(arguments: ReadResultArguments, context: ToolContext) -> object:
        named = _URI.fullmatch(arguments.uri.strip())
        if named is None:
            raise ToolFailed("NOT_FOUND", "a result's address is result://<turn>/<call>")
        result = await kept.find(context.user_id, TurnId(named["turn"]), ToolCallId(named["call"]))
        if result is None:
            raise ToolFailed("NOT_FOUND", "there is no such result")
        part = _part(result.text, arguments.offset, arguments.limit)
        end = arguments.offset + len(part)
        return {
            "uri": arguments.uri.strip(),
            "tool": result.tool_name,
            "offset": arguments.offset,
            "part": part,
            "next_offset": end if end < len(result.text) else None,
            "total_length": len(result.text),
        }

    return ToolEntry(
        name="read_result",
        tool_set="read",
        description=(
            "Read a tool result of this or an earlier turn in parts, when it was cut or stands in "
            "the conversation as one line with its address. Returns `part` of the JSON text from "
            "`offset` on, `total_length` in characters, and `next_offset` for the next call, null "
            "at the end. The figures in it are as old as the call."
        ),
        arguments=ReadResultArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        may_bring_outside_text=True,
    )


def _part(text: str, offset: int, limit: int) -> str:
    part = text[offset : offset + limit]
    while len(dump_json(part).encode("utf-8", "replace")) > MAX_PART_BYTES:
        part = part[: len(part) * 3 // 4]
    return part
