"""A Messages request as its cache and its model see it."""

from collections.abc import Iterator, Mapping
from typing import Any

from minara_core.ids import ToolCallId
from minara_core.messages import (
    Block,
    FileBlock,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from minara_core.tooling import ToolCall
from minara_llm.model import ModelRequest, SystemBlock, ToolChoice
from minara_llm.wire.bodies import Body, dump, inner, listed
from minara_llm.wire.cache import (
    IMAGE_TOKENS,
    LIFE_SECONDS,
    LONG_LIFE_SECONDS,
    Prompt,
    PromptBlock,
)
from minara_llm.wire.views import in_context_tags, tool_of

_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})


def blocks_of(content: Any) -> list[Body]:
    """Content blocks; a string is short for one text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def messages_prompt(body: Body) -> Prompt:
    """Its blocks in the order in which they are cached: tools, system, what was said."""
    placed = [("tools", "", tool) for tool in body.get("tools") or ()]
    placed += [("system", "", block) for block in blocks_of(body.get("system"))]
    placed += [
        ("messages", str(message["role"]), block)
        for message in body["messages"]
        for block in blocks_of(message["content"])
    ]
    blocks = [_block(part, role, block) for part, role, block in placed]
    if body.get("cache_control"):
        last = _last_markable(placed)
        if last is not None:
            part, role, block = placed[last]
            marked = {**block, "cache_control": body["cache_control"]}
            blocks[last] = _block(part, role, marked)
    thinking = {k: v for k, v in inner(body, "thinking").items() if k != "display"}
    choice = inner(body, "tool_choice") or {"type": "auto"}
    settings = dump([choice, thinking])
    return Prompt(model=str(body["model"]), blocks=tuple(blocks), settings=settings)


def messages_view(body: Body) -> ModelRequest:
    """The request in neutral words."""
    system = blocks_of(body.get("system"))
    choice = inner(body, "tool_choice").get("type")
    return ModelRequest(
        model=str(body["model"]),
        system=tuple(SystemBlock(name=f"{n}", text=b["text"]) for n, b in enumerate(system)),
        tools=tuple(
            tool_of(tool["name"], tool.get("description"), tool.get("input_schema"))
            for tool in body.get("tools") or ()
        ),
        messages=tuple(view for message in body["messages"] for view in _views(message)),
        max_output_tokens=int(body["max_tokens"]),
        session_id="",
        tool_choice=ToolChoice.NONE if choice == "none" else ToolChoice.AUTO,
    )


def _last_markable(placed: list[tuple[str, str, Body]]) -> int | None:
    return next(
        (n for n in range(len(placed) - 1, -1, -1) if placed[n][2].get("type") not in _UNMARKABLE),
        None,
    )


def _block(part: str, role: str, block: Body) -> PromptBlock:
    mark: Mapping[str, Any] | None = block.get("cache_control")
    text = dump(_unmarked(block))
    files = list(_files(block))
    size = len(text.encode()) - sum(len(data.encode()) for data in files)
    life = 0.0
    if mark:
        life = LONG_LIFE_SECONDS if mark.get("ttl") == "1h" else LIFE_SECONDS
    return PromptBlock(
        part=part,
        text=f"{role}:{text}" if role else text,
        tokens=-(-size // 4) + IMAGE_TOKENS * len(files),
        life_seconds=life,
    )


def _unmarked(block: Body) -> Body:
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    if parts := listed(block, "content"):
        kept["content"] = [_unmarked(part) for part in parts]
    return kept


def _files(block: Body) -> Iterator[str]:
    source = inner(block, "source")
    if block.get("type") in {"image", "document"} and source.get("type") == "base64":
        yield str(source.get("data", ""))
    for part in listed(block, "content"):
        yield from _files(part)


def _views(message: Body) -> Iterator[Message]:
    """One message of the wire may hold results, context of ours, and what a person said."""
    blocks = blocks_of(message["content"])
    match message["role"]:
        case "assistant":
            yield Message(role=Role.ASSISTANT, blocks=tuple(_said(block) for block in blocks))
        case "system":
            text = "\n\n".join(block["text"] for block in blocks)
            yield Message(role=Role.CONTEXT, blocks=(TextBlock(text),))
        case _:
            yield from _user_views(blocks)


def _user_views(blocks: list[Body]) -> Iterator[Message]:
    results = tuple(_result(block) for block in blocks if block["type"] == "tool_result")
    if results:
        yield Message(role=Role.TOOL, blocks=results)
    said: list[Block] = []
    for block in blocks:
        text = str(block.get("text", ""))
        ours = in_context_tags(text)
        if ours is not None:
            yield Message(role=Role.CONTEXT, blocks=(TextBlock(ours),))
        elif block["type"] == "text":
            said.append(TextBlock(text))
        elif block["type"] != "tool_result":
            media_type = str(inner(block, "source").get("media_type", ""))
            said.append(FileBlock(file_key="", media_type=media_type))
    if said:
        yield Message(role=Role.USER, blocks=tuple(said))


def _said(block: Body) -> Block:
    match block["type"]:
        case "tool_use":
            return ToolCallBlock(
                ToolCall(
                    tool_call_id=ToolCallId(block["id"]),
                    name=block["name"],
                    arguments_json=dump(block["input"]),
                )
            )
        case "thinking" | "redacted_thinking":
            return ThinkingBlock(str(block.get("thinking", "")))
        case _:
            return TextBlock(str(block.get("text", "")))


def _result(block: Body) -> ToolResultBlock:
    parts = blocks_of(block.get("content"))
    return ToolResultBlock(
        tool_call_id=ToolCallId(block["tool_use_id"]),
        envelope="".join(str(part.get("text", "")) for part in parts),
        is_error=bool(block.get("is_error")),
    )
