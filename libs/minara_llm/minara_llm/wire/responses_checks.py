"""What the Responses API refuses, in OpenAI's words. Nothing is stored here, so that every item
must come whole."""

from collections.abc import Sequence
from types import MappingProxyType

from minara_llm.wire.bodies import (
    Body,
    as_bodies,
    as_body,
    as_list,
    as_text,
    invalid,
    require,
    words,
)
from minara_llm.wire.files import check_data_url
from minara_llm.wire.memory import Memory
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

LEAST_OUTPUT = 16
_LONGEST_CALL_ID = 64
_ROLES = frozenset({"user", "assistant", "system", "developer"})
_PREFIXES = MappingProxyType({"message": "msg", "function_call": "fc", "reasoning": "rs"})
_KNOWN = words(
    "access_programs background background_options context_management conversation include"
    " input instructions max_output_tokens max_tool_calls metadata model moderation"
    " parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options"
    " prompt_cache_retention reasoning safety_identifier service_tier store stream"
    " stream_options temperature text tool_choice tools top_logprobs top_p truncation user"
)


def check_responses(body: Body, model: WireModel, memory: Memory) -> None:
    """Raises Refused with a 400 for a body that the API would not take."""
    check_known(body, _KNOWN)
    check_limit(body.get("max_output_tokens"), "max_output_tokens", LEAST_OUTPUT, model)
    previous = body.get("previous_response_id")
    if previous is not None:
        raise invalid(
            f"Previous response with id '{previous}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    names = check_tools(body, _function)
    check_choice(body.get("tool_choice"), names, allowed_names)
    if body.get("reasoning") is not None:
        check_effort(as_body(body["reasoning"], "reasoning").get("effort"), "reasoning.effort")
    _check_include(body)
    items = items_of_input(body)
    require(bool(items), "Invalid 'input': empty array.", code="empty_array", param="input")
    for n, item in enumerate(items):
        _check_item(item, f"input[{n}]", memory)
    _check_pairs(items)
    _check_reasoning(items, memory)


def items_of_input(body: Body) -> list[Body]:
    """Input items; a string is short for one user message."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [
        item if "type" in item else {"type": "message", **item}
        for item in as_bodies(given, "input")
    ]


def allowed_names(choice: Body) -> list[str]:
    """Tools that a choice names: those allowed, or the one that must be called."""
    if choice.get("type") == "allowed_tools":
        mode = choice.get("mode")
        require(mode in {"auto", "required"}, f"Invalid value: '{mode}'.", param="tool_choice")
        tools = as_bodies(choice.get("tools"), "tool_choice.tools")
        require(bool(tools), "Invalid 'tool_choice.tools': empty array.", code="empty_array")
        return [str(_function(tool, "tool_choice").get("name")) for tool in tools]
    return [str(_function(choice, "tool_choice").get("name"))]


def _function(tool: Body, place: str) -> Body:
    kind = tool.get("type")
    require(kind == "function", f"Invalid value: '{kind}'.", code="invalid_value", param=place)
    return tool


def _check_include(body: Body) -> None:
    known = {
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
        "message.input_image.image_url",
    }
    for n, name in enumerate(as_list(body.get("include") or [], "include")):
        require(
            name in known,
            f"Invalid value: '{name}'.",
            code="invalid_value",
            param=f"include[{n}]",
        )


def _check_item(item: Body, place: str, memory: Memory) -> None:
    kind = as_text(item.get("type"), f"{place}.type")
    item_id, prefix = item.get("id"), _PREFIXES.get(kind)
    if item_id is not None and prefix is not None:
        require(
            as_text(item_id, f"{place}.id").startswith(prefix),
            f"Invalid '{place}.id': '{item_id}'. Expected an ID that begins with '{prefix}'.",
            code="invalid_value",
            param=f"{place}.id",
        )
    match kind:
        case "message":
            _check_message(item, place)
        case "function_call":
            check_call_id(item.get("call_id"), f"{place}.call_id", _LONGEST_CALL_ID)
            require(bool(item.get("name")), f"Missing required parameter: '{place}.name'.")
            as_text(item.get("arguments"), f"{place}.arguments")
        case "function_call_output":
            check_call_id(item.get("call_id"), f"{place}.call_id", _LONGEST_CALL_ID)
            require(
                item.get("output") is not None,
                f"Missing required parameter: '{place}.output'.",
                code="missing_required_parameter",
                param=f"{place}.output",
            )
        case "reasoning":
            _check_sealed(item, place, memory)
        case "item_reference":
            raise invalid(_not_stored(item.get("id")), param="input")
        case _:
            raise invalid(f"Invalid value: '{kind}'.", code="invalid_value", param=f"{place}.type")


def _check_message(item: Body, place: str) -> None:
    role = item.get("role")
    require(role in _ROLES, f"Invalid value: '{role}'.", code="invalid_value", param=place)
    content = item.get("content")
    if isinstance(content, str):
        return
    kinds = {"output_text", "refusal"} if role == "assistant" else {"input_text"}
    if role == "user":
        kinds |= {"input_image", "input_file"}
    for n, part in enumerate(as_bodies(content, f"{place}.content")):
        here = f"{place}.content[{n}]"
        kind = part.get("type")
        require(
            kind in kinds,
            f"Invalid value: '{kind}'. Supported values are: {', '.join(sorted(kinds))}.",
            code="invalid_value",
            param=f"{here}.type",
        )
        match kind:
            case "input_image":
                check_data_url(as_text(part.get("image_url"), f"{here}.image_url"), here)
            case "input_file":
                check_filename(part, here)
                check_data_url(as_text(part.get("file_data"), f"{here}.file_data"), here)
            case "refusal":
                as_text(part.get("refusal"), f"{here}.refusal")
            case _:
                as_text(part.get("text"), f"{here}.text")


def _check_sealed(item: Body, place: str, memory: Memory) -> None:
    item_id = as_text(item.get("id"), f"{place}.id")
    as_list(item.get("summary"), f"{place}.summary")
    sealed = item.get("encrypted_content")
    require(sealed is not None, _not_stored(item_id), param="input")
    require(
        memory.signer.is_sealed(str(sealed)),
        f"The encrypted content for item {item_id} could not be verified.",
        code="invalid_encrypted_content",
        param=f"{place}.encrypted_content",
    )


def _not_stored(item_id: object) -> str:
    return (
        f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to false."
        " Try again with `store` set to true, or remove this item from your input."
    )


def _check_pairs(items: Sequence[Body]) -> None:
    called = [item["call_id"] for item in items if item["type"] == "function_call"]
    require(len(set(called)) == len(called), "Duplicate 'call_id' in 'input'.", param="input")
    waiting: list[str] = []
    for item in items:
        if item["type"] == "function_call":
            waiting.append(item["call_id"])
        elif item["type"] == "function_call_output":
            call_id = item["call_id"]
            require(
                call_id in waiting,
                f"No tool call found for function call output with call_id {call_id}.",
                param="input",
            )
            waiting.remove(call_id)
    require(
        not waiting,
        f"No tool output found for function call {', '.join(waiting)}.",
        param="input",
    )


def _check_reasoning(items: Sequence[Body], memory: Memory) -> None:
    """A call stands behind the thinking it came from, and thinking before what came of it."""
    for n, item in enumerate(items):
        if item["type"] == "reasoning":
            following = items[n + 1] if n + 1 < len(items) else {}
            is_followed = following.get("type") in {"reasoning", "function_call"} or (
                following.get("role") == "assistant"
            )
            require(
                is_followed,
                f"Item '{item['id']}' of type 'reasoning' was provided without its required"
                " following item.",
                param="input",
            )
        elif item["type"] == "function_call":
            needed = memory.reasoning_of.get(item["call_id"])
            require(
                needed is None or needed in _thoughts_before(items, n),
                f"Item '{item.get('id')}' of type 'function_call' was provided without its required"
                f" 'reasoning' item: '{needed}'.",
                param="input",
            )


def _thoughts_before(items: Sequence[Body], place: int) -> set[str]:
    """Reasoning items of the same answer: back to what somebody else said."""
    found: set[str] = set()
    for item in reversed(items[:place]):
        if item["type"] == "function_call_output" or item.get("role", "assistant") != "assistant":
            break
        if item["type"] == "reasoning":
            found.add(item["id"])
    return found
