"""What Chat Completions refuses, in OpenAI's words. Compatible servers refuse less."""

from collections.abc import Sequence

from minara_llm.wire.bodies import Body, as_bodies, as_body, as_text, invalid, require, words
from minara_llm.wire.files import check_data_url
from minara_llm.wire.models import WireModel
from minara_llm.wire.openai_checks import (
    check_call_id,
    check_choice,
    check_effort,
    check_filename,
    check_known,
    check_limit,
    check_tools,
)

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_LONGEST_CALL_ID = 40
_KNOWN = words(
    "messages model audio frequency_penalty function_call functions logit_bias logprobs"
    " max_completion_tokens max_tokens metadata modalities moderation n parallel_tool_calls"
    " prediction presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention"
    " reasoning_effort response_format safety_identifier seed service_tier stop store stream"
    " stream_options temperature tool_choice tools top_logprobs top_p user verbosity"
    " web_search_options"
)
_OTHERS = _KNOWN | words(
    "reasoning provider models route transforms plugins usage include_reasoning cache_control"
    " keep_alive options think top_k min_p session_id"
)


def check_chat(body: Body, model: WireModel) -> None:
    """Raises Refused with a 400 for a body that the API would not take."""
    check_known(body, _KNOWN if model.is_native else _OTHERS)
    if model.is_native and body.get("max_tokens") is not None:
        raise invalid(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
            " 'max_completion_tokens' instead.",
            code="unsupported_parameter",
            param="max_tokens",
        )
    for name in ("max_completion_tokens", "max_tokens"):
        check_limit(body.get(name), name, 1, model)
    if body.get("stream_options") is not None:
        require(
            body.get("stream") is True,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    names = check_tools(body, _function)
    if body.get("tools") == []:
        raise invalid("[] is too short - 'tools'", code="empty_array", param="tools")
    check_choice(body.get("tool_choice"), names, allowed_names)
    check_effort(body.get("reasoning_effort"), "reasoning_effort")
    if names and model.has_no_effort_with_tools:
        require(
            body.get("reasoning_effort") == "none",
            f"Function tools with reasoning_effort are not supported for {model.name} in"
            " /v1/chat/completions. Please use /v1/responses instead, or set reasoning_effort to"
            " 'none'.",
            param="reasoning_effort",
        )
    messages = as_bodies(body.get("messages"), "messages")
    require(bool(messages), "[] is too short - 'messages'", param="messages")
    for n, message in enumerate(messages):
        _check_message(message, f"messages[{n}]", model)
    _check_pairs(messages)


def allowed_names(choice: Body) -> list[str]:
    """Tools that a choice names: those allowed, or the one that must be called."""
    if choice.get("type") == "allowed_tools":
        inner = as_body(choice.get("allowed_tools"), "tool_choice.allowed_tools")
        mode = inner.get("mode")
        require(mode in {"auto", "required"}, f"Invalid value: '{mode}'.", param="tool_choice")
        tools = as_bodies(inner.get("tools"), "tool_choice.allowed_tools.tools")
        require(bool(tools), "[] is too short - 'tool_choice.allowed_tools.tools'")
        return [str(_function(tool, "tool_choice").get("name")) for tool in tools]
    return [str(_function(choice, "tool_choice").get("name"))]


def _function(tool: Body, place: str) -> Body:
    kind = tool.get("type")
    require(kind == "function", f"Invalid value: '{kind}'.", code="invalid_value", param=place)
    return as_body(tool.get("function"), f"{place}.function")


def _check_message(message: Body, place: str, model: WireModel) -> None:
    role = message.get("role")
    require(
        role in _ROLES,
        f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function',"
        " 'tool', and 'developer'.",
        code="invalid_value",
        param=f"{place}.role",
    )
    require(
        role != "developer" or model.is_native,
        f"{place}.role: 'developer' is not a role that this server knows",
        param=f"{place}.role",
    )
    content = message.get("content")
    if role == "assistant" and content is None:
        require(
            message.get("tool_calls") is not None or message.get("refusal") is not None,
            "Invalid value for 'content': expected a string, got null.",
            param=f"{place}.content",
        )
    else:
        _check_content(content, str(role), place)
    if message.get("tool_calls") is not None:
        require(role == "assistant", f"'{place}.tool_calls' is not allowed for this role")
        _check_calls(message["tool_calls"], place)
    if role == "tool":
        check_call_id(message.get("tool_call_id"), f"{place}.tool_call_id", _LONGEST_CALL_ID)


def _check_content(content: object, role: str, place: str) -> None:
    if isinstance(content, str):
        return
    require(
        content is not None,
        "Invalid value for 'content': expected a string, got null.",
        param=f"{place}.content",
    )
    parts = as_bodies(content, f"{place}.content")
    require(bool(parts), f"[] is too short - '{place}.content'")
    for n, part in enumerate(parts):
        here = f"{place}.content[{n}]"
        kind = part.get("type")
        match kind:
            case "text":
                as_text(part.get("text"), f"{here}.text")
            case "image_url" if role == "user":
                image = as_body(part.get("image_url"), f"{here}.image_url")
                check_data_url(as_text(image.get("url"), f"{here}.image_url.url"), here)
            case "file" if role == "user":
                file = as_body(part.get("file"), f"{here}.file")
                check_filename(file, here)
                check_data_url(as_text(file.get("file_data"), f"{here}.file.file_data"), here)
            case _:
                raise invalid(
                    f"Invalid value: '{kind}'. It is not supported in '{role}' messages.",
                    code="invalid_value",
                    param=f"{here}.type",
                )


def _check_calls(value: object, place: str) -> None:
    calls = as_bodies(value, f"{place}.tool_calls")
    require(
        bool(calls),
        f"Invalid '{place}.tool_calls': empty array. Expected an array with minimum length 1, but"
        " got an empty array instead.",
        code="empty_array",
        param=f"{place}.tool_calls",
    )
    for n, call in enumerate(calls):
        here = f"{place}.tool_calls[{n}]"
        check_call_id(call.get("id"), f"{here}.id", _LONGEST_CALL_ID)
        function = _function(call, here)
        require(bool(function.get("name")), f"Invalid '{here}.function.name': empty string.")
        as_text(function.get("arguments"), f"{here}.function.arguments")


def _check_pairs(messages: Sequence[Body]) -> None:
    """All calls of a message are answered directly behind it, each once."""
    waiting: list[str] = []
    answerable: list[str] = []
    for n, message in enumerate(messages):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            require(
                bool(answerable),
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding"
                " message with 'tool_calls'.",
                param=f"messages.[{n}].role",
            )
            require(
                call_id in waiting,
                f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of"
                " previous message.",
                param=f"messages.[{n}].tool_call_id",
            )
            waiting.remove(call_id)
            continue
        _check_answered(waiting, n)
        answerable = [call["id"] for call in message.get("tool_calls") or ()]
        require(
            len(set(answerable)) == len(answerable),
            f"Duplicate value for 'tool_call_id' in messages[{n}]",
            param=f"messages.[{n}].tool_calls",
        )
        waiting = list(answerable)
    _check_answered(waiting, len(messages))


def _check_answered(waiting: Sequence[str], place: int) -> None:
    require(
        not waiting,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to"
        " each 'tool_call_id'. The following tool_call_ids did not have response messages:"
        f" {', '.join(waiting)}",
        param=f"messages.[{place}].role",
    )
