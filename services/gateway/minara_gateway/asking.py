"""What a turn asks the person (tool `ask_user`), as clients show it."""

import json
from dataclasses import dataclass
from typing import Any, cast

TOOL = "ask_user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, and the short answers to choose from, if any. A model wrote both."""

    text: str
    options: tuple[str, ...] = ()

    @property
    def rendered(self) -> str:
        """The question, and under it the options with their numbers."""
        return "\n".join([self.text, *(f"{n}. {o}" for n, o in enumerate(self.options, start=1))])

    def answer(self, typed: str) -> str:
        """What a person means who typed this: an option by its number, else their own words."""
        word = typed.strip()
        is_number = word.isascii() and word.isdigit() and len(word) < len("100")
        if is_number and 1 <= int(word) <= len(self.options):
            return self.options[int(word) - 1]
        return typed


def question_of(arguments_json: str) -> Question | None:
    """The question that a call of the tool asks, by its arguments; None when there is none."""
    try:
        found = json.loads(arguments_json)
    except ValueError:
        return None
    arguments = cast("dict[str, Any]", found if isinstance(found, dict) else {})
    text, options = arguments.get("question"), arguments.get("options", [])
    if not isinstance(text, str) or not text.strip():
        return None
    listed = cast("list[object]", options if isinstance(options, list) else [])
    return Question(text=text, options=tuple(o for o in listed if isinstance(o, str)))
