"""Requests of OpenAI's two APIs as their cache and their model see them."""

from collections.abc import Callable, Iterable, Sequence
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
from minara_llm.wire import chat_checks, responses_checks
from minara_llm.wire.bodies import Body, dump, inner, listed
from minara_llm.wire.cache import IMAGE_TOKENS, Prompt, PromptBlock
from minara_llm.wire.views import tool_of

_MODEL_LIMIT = 8_192


def chat_prompt(body: Body) -> Prompt:
    """Tools first, then what was said; the system prompt is a message like others."""
    return _prompt(body, body["messages"], ())


def responses_prompt(body: Body) -> Prompt:
    """Tools, instructions, then the items."""
    instructions = body.get("instructions")
    system = (instructions,) if instructions else ()
    return _prompt(body, responses_checks.items_of_input(body), system)


def chat_view(body: Body) -> ModelRequest:
    """The request in neutral words. Only the messages before the first other one are the system
    prompt; later ones are context."""
    messages: list[Body] = body["messages"]
    head = _system_length(messages)
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    choice = body.get("tool_choice")
    return ModelRequest(
        model=str(body["model"]),
        system=_system(text_of(message.get("content")) for message in messages[:head]),
        tools=tuple(
            tool_of(f["name"], f.get("description"), f.get("parameters"))
            for f in (tool["function"] for tool in body.get("tools") or ())
        ),
        messages=_joined([_chat_message(message) for message in messages[head:]]),
        max_output_tokens=int(limit or _MODEL_LIMIT),
        session_id=str(body.get("prompt_cache_key") or ""),
        tool_choice=ToolChoice.NONE if choice == "none" else ToolChoice.AUTO,
        callable_tools=_callable(choice, chat_checks.allowed_names),
    )


def responses_view(body: Body) -> ModelRequest:
    """The request in neutral words."""
    items = responses_checks.items_of_input(body)
    head = _system_length(items)
    choice = body.get("tool_choice")
    instructions = [str(body["instructions"])] if body.get("instructions") else []
    first = [text_of(item.get("content")) for item in items[:head]]
    return ModelRequest(
        model=str(body["model"]),
        system=_system([*instructions, *first]),
        tools=tuple(
            tool_of(tool["name"], tool.get("description"), tool.get("parameters"))
            for tool in body.get("tools") or ()
        ),
        messages=_joined([_item(item) for item in items[head:]]),
        max_output_tokens=int(body.get("max_output_tokens") or _MODEL_LIMIT),
        session_id=str(body.get("prompt_cache_key") or ""),
        tool_choice=ToolChoice.NONE if choice == "none" else ToolChoice.AUTO,
        callable_tools=_callable(choice, responses_checks.allowed_names),
    )


def text_of(content: Any) -> str:
    """The texts of a string or of content parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n\n".join(str(part.get("text") or "") for part in content)


def _prompt(body: Body, said: Sequence[Any], system: Sequence[Any]) -> Prompt:
    placed = [("tools", tool) for tool in body.get("tools") or ()]
    placed += [("system", text) for text in system]
    placed += [("messages", message) for message in said]
    return Prompt(
        model=str(body["model"]),
        blocks=tuple(_block(part, value) for part, value in placed),
        cache_key=str(body.get("prompt_cache_key") or ""),
    )


def _block(part: str, value: Any) -> PromptBlock:
    text = dump(value)
    files = list(_data_urls(value))
    size = len(text.encode()) - sum(len(url) for url in files)
    return PromptBlock(part=part, text=text, tokens=-(-size // 4) + IMAGE_TOKENS * len(files))


def _data_urls(value: Any) -> Iterable[str]:
    for part in listed({} if isinstance(value, str) else value, "content"):
        image: Any = inner(part, "image_url").get("url") or part.get("image_url")
        file: Any = inner(part, "file").get("file_data") or part.get("file_data")
        for found in (image, file):
            if isinstance(found, str) and found.startswith("data:"):
                yield found


def _system_length(messages: Sequence[Body]) -> int:
    return next(
        (n for n, m in enumerate(messages) if m.get("role") not in {"system", "developer"}),
        len(messages),
    )


def _system(texts: Iterable[str]) -> tuple[SystemBlock, ...]:
    return tuple(SystemBlock(name=f"{n}", text=text) for n, text in enumerate(texts))


def _callable(choice: Any, allowed: Callable[[Body], list[str]]) -> tuple[str, ...] | None:
    chosen = inner({"choice": choice}, "choice")
    return tuple(allowed(chosen)) if chosen.get("type") == "allowed_tools" else None


def _joined(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Neighbours that are one message to us, but several to the wire: results, and what the model
    said in one answer."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last and last.role is message.role and message.role in {Role.TOOL, Role.ASSISTANT}:
            joined[-1] = Message(role=last.role, blocks=(*last.blocks, *message.blocks))
        else:
            joined.append(message)
    return tuple(joined)


def _chat_message(message: Body) -> Message:
    match message["role"]:
        case "tool":
            return _result(message["tool_call_id"], message.get("content"))
        case "assistant":
            said = message.get("content")
            calls = [
                _call(call["id"], call["function"]) for call in message.get("tool_calls") or ()
            ]
            texts = (TextBlock(text_of(said)),) if said else ()
            return Message(role=Role.ASSISTANT, blocks=(*texts, *calls))
        case _:
            return _theirs(message)


def _item(item: Body) -> Message:
    match item["type"]:
        case "function_call":
            return Message(role=Role.ASSISTANT, blocks=(_call(item["call_id"], item),))
        case "function_call_output":
            return _result(item["call_id"], item["output"])
        case "reasoning":
            thought = "".join(str(part.get("text", "")) for part in item["summary"])
            return Message(role=Role.ASSISTANT, blocks=(ThinkingBlock(thought),))
        case _ if item["role"] == "assistant":
            text = text_of(item.get("content"))
            return Message(role=Role.ASSISTANT, blocks=(TextBlock(text),))
        case _:
            return _theirs(item)


def _theirs(message: Body) -> Message:
    role = Role.USER if message["role"] == "user" else Role.CONTEXT
    content = message.get("content")
    blocks: list[Block] = [TextBlock(text_of(content))]
    blocks += [FileBlock(file_key="", media_type="") for _ in _data_urls(message)]
    return Message(role=role, blocks=tuple(blocks))


def _call(call_id: str, function: Body) -> ToolCallBlock:
    return ToolCallBlock(
        ToolCall(
            tool_call_id=ToolCallId(call_id),
            name=function["name"],
            arguments_json=function["arguments"],
        )
    )


def _result(call_id: str, content: Any) -> Message:
    block = ToolResultBlock(tool_call_id=ToolCallId(call_id), envelope=text_of(content))
    return Message(role=Role.TOOL, blocks=(block,))
