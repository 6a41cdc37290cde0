"""Models as lines for people."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

Fields = Mapping[str, Any]


def describe_models(answer: Fields) -> Iterator[str]:
    """What `GET /v1/models` said: who answers, what may be chosen, and the other roles."""
    active, chosen = answer["active_model"], answer["chosen_model"]
    yield f"answers first: {active}" + (" (your choice)" if active == chosen else "")
    if chosen and active != chosen:
        yield f"your choice:   {chosen} (left alone for now)"
    yield "to choose from:"
    for model in _models(answer, "choices"):
        yield f"  {_name(model)}{_remarks(model)}"
    for role in cast("list[Fields]", answer["roles"]):
        if role["role"] != "main":
            names = ", ".join(_name(model) for model in _models(role, "models"))
            yield f"{role['role']}: {names or 'none'}"


def describe_choice(answer: Fields) -> str:
    """What `PUT /v1/models/chosen` said."""
    chosen = answer["chosen_model"]
    if not chosen:
        return f"your choice is forgotten; {answer['active_model']} answers first"
    return f"{chosen} answered, and speaks from your next message on"


def _models(fields: Fields, key: str) -> list[Fields]:
    return cast("list[Fields]", fields[key])


def _name(model: Fields) -> str:
    return f"{model['provider']}:{model['name']}"


def _remarks(model: Fields) -> str:
    remarks = [f"{model['context_window']:,} tokens"]
    if not model["has_price"]:
        remarks.append("price unknown: dollar limits do not bind")
    if model["is_left_alone"]:
        remarks.append("does not answer; left alone for now")
    return f"  ({'; '.join(remarks)})"
