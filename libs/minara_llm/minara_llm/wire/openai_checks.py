"""What OpenAI's two APIs refuse alike."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from minara_llm.wire.bodies import Body, as_bodies, as_body, as_text, invalid, require
from minara_llm.wire.models import WireModel

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_TOOLS = 128
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
_CHOICES = frozenset({"auto", "none", "required"})


def check_known(body: Body, known: frozenset[str]) -> None:
    """Raises Refused for a parameter that the API does not have."""
    extra = sorted(set(body) - known)
    if extra:
        raise invalid(f"Unknown parameter: '{extra[0]}'.", code="unknown_parameter", param=extra[0])


def check_limit(limit: Any, name: str, least: int, model: WireModel) -> None:
    """Raises Refused for a limit of output tokens below `least`, or over the model's;
    servers that only follow OpenAI cut that one off instead."""
    if limit is None:
        return
    is_number = isinstance(limit, int) and not isinstance(limit, bool)
    require(is_number, f"Invalid type for '{name}': expected an integer.", param=name)
    require(
        limit >= least,
        f"Invalid '{name}': integer below minimum value. Expected a value >= {least}, but got"
        f" {limit} instead.",
        code="integer_below_min_value",
        param=name,
    )
    require(
        limit <= model.max_output or not model.is_native,
        f"{name} is too large: {limit}. This model supports at most {model.max_output} completion"
        f" tokens, whereas you provided {limit}.",
        code="invalid_value",
        param=name,
    )


def check_tools(body: Body, named: Callable[[Body, str], Body]) -> list[str]:
    """The names of the tools; `named` finds the part of a tool that has its name."""
    tools = as_bodies(body["tools"], "tools") if body.get("tools") is not None else []
    require(
        len(tools) <= _MOST_TOOLS,
        f"Invalid 'tools': array too long. Expected an array with maximum length {_MOST_TOOLS}.",
        code="array_above_max_length",
        param="tools",
    )
    names: list[str] = []
    for n, tool in enumerate(tools):
        place = f"tools[{n}]"
        function = named(tool, place)
        name = as_text(function.get("name"), f"{place}.name")
        require(
            _TOOL_NAME.fullmatch(name) is not None,
            f"Invalid '{place}.function.name': string does not match pattern. Expected a string"
            " that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            code="invalid_value",
            param=f"{place}.name",
        )
        if (schema := function.get("parameters")) is not None:
            kind = as_body(schema, f"{place}.parameters").get("type")
            require(
                kind == "object",
                f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type:"
                f' "object"\', got \'type: "{kind}"\'.',
                code="invalid_function_parameters",
                param=f"{place}.parameters",
            )
        names.append(name)
    return names


def check_choice(choice: Any, names: Sequence[str], allowed: Callable[[Body], list[str]]) -> None:
    """Raises Refused for a choice of tools that are not there. `allowed` finds the names in a
    choice that is an object."""
    if choice is None:
        return
    require(
        bool(names),
        "'tool_choice' is only allowed when 'tools' are specified.",
        param="tool_choice",
    )
    if isinstance(choice, str):
        require(
            choice in _CHOICES,
            f"Invalid value: '{choice}'. Supported values are: 'none', 'auto', and 'required'.",
            code="invalid_value",
            param="tool_choice",
        )
        return
    missing = [name for name in allowed(as_body(choice, "tool_choice")) if name not in names]
    require(
        not missing,
        f"Tool choice '{', '.join(missing)}' not found in 'tools' parameter.",
        param="tool_choice",
    )


def check_effort(effort: Any, place: str) -> None:
    """Raises Refused for an effort that is none."""
    if effort is not None:
        require(
            effort in _EFFORTS,
            f"Invalid value: '{effort}'.",
            code="invalid_value",
            param=place,
        )


def check_call_id(call_id: Any, place: str, most: int) -> str:
    """Raises Refused for an id that is empty or longer than `most`."""
    text = as_text(call_id, place)
    require(bool(text), f"Invalid '{place}': empty string.", code="empty_string", param=place)
    require(
        len(text) <= most,
        f"Invalid '{place}': string too long. Expected a string with maximum length {most}, but got"
        f" a string with length {len(text)} instead.",
        code="string_above_max_length",
        param=place,
    )
    return text


def check_filename(file: Body, place: str) -> None:
    """Raises Refused for a file without a name."""
    require(
        bool(file.get("filename")),
        f"Missing required parameter: '{place}.filename'.",
        code="missing_required_parameter",
        param=f"{place}.filename",
    )
