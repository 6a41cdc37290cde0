"""ScriptedModel: a ChatModel that plays prepared scripts, one per call.

It ships with the library, so that every service's tests use the same double. It fails loudly:
a call without a script, or a script without a call, is a broken test.
"""

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any

from minara_core.events import TokenUsage
from minara_llm.model import (
    ModelEvent,
    ModelRequest,
    ModelStop,
    ModelText,
    ModelToolCall,
    ModelUsage,
    StopReason,
)

Events = tuple[ModelEvent, ...]
Script = Sequence[ModelEvent] | Exception | Callable[[ModelRequest], Iterable[ModelEvent]]
"""What one call plays: events, an error to raise, or a function of the request."""

_USAGE = TokenUsage(input_tokens=100, output_tokens=20)


def says(*texts: str, usage: TokenUsage = _USAGE) -> Events:
    """The model streams these texts and stops."""
    return (
        *(ModelText(text=text) for text in texts),
        ModelUsage(usage=usage),
        ModelStop(reason=StopReason.END),
    )


def calls(
    *tool_calls: tuple[str, Mapping[str, Any]], text: str = "", usage: TokenUsage = _USAGE
) -> Events:
    """The model asks for these tool calls, each a name and its arguments, after `text` if any."""
    return (
        *((ModelText(text=text),) if text else ()),
        *(
            ModelToolCall(name=name, arguments_json=json.dumps(arguments, ensure_ascii=False))
            for name, arguments in tool_calls
        ),
        ModelUsage(usage=usage),
        ModelStop(reason=StopReason.TOOL_CALLS),
    )


class ScriptedModel:
    """Plays `scripts` in order and keeps every request in `requests`."""

    def __init__(
        self,
        scripts: Iterable[Script],
        *,
        provider: str = "scripted",
        name: str = "scripted",
        context_window: int = 200_000,
    ) -> None:
        self._scripts = list(scripts)
        self._provider = provider
        self._name = name
        self._context_window = context_window
        self.requests: list[ModelRequest] = []

    @property
    def provider(self) -> str:
        return self._provider

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int:
        return self._context_window

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Plays the next script; raises AssertionError when none is left."""
        position = len(self.requests)
        self.requests.append(request)
        if position >= len(self._scripts):
            raise AssertionError(
                f"call {position + 1} of {self._name} has no script; "
                f"{len(self._scripts)} were given"
            )
        script = self._scripts[position]
        if isinstance(script, Exception):
            raise script
        for event in script(request) if callable(script) else script:
            yield event

    def assert_exhausted(self) -> None:
        """Raises AssertionError when scripts are left that no call played."""
        left = len(self._scripts) - len(self.requests)
        if left > 0:
            raise AssertionError(f"{left} scripts of {self._name} were never played")
