"""Writing a text file into the person's own folder."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import FileBox
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolContext, ToolEntry


class WriteFileArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            description="Relative to the person's own folder; folders are made as needed.",
        ),
    ]
    content: Annotated[str, Field(max_length=65_536, description="The whole new text of the file.")]


def write_file(files: FileBox) -> ToolEntry:
    """The tool `write_file`."""

    async def run(arguments: WriteFileArguments, context: ToolContext) -> object:
        try:
            content = arguments.content.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ToolFailed("NOT_TEXT", "the content is no Unicode text") from error
        path = await files.write(context.user_id, arguments.path, content)
        return {"path": path, "size_bytes": len(content)}

    return ToolEntry(
        name="write_file",
        tool_set="file",
        description=(
            "Write a UTF-8 text file into the person's own folder. It replaces a file of the same "
            "path as a whole, so read it first if anything in it is to stay. Use it only when "
            "the person asks to save something."
        ),
        arguments=WriteFileArguments,
        permission_tier=PermissionTier.CONFIRM_ONCE,
        handler=run,
        untrusted_output=False,
    )
