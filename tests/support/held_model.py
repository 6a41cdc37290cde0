"""A scripted model that stops in the middle of an answer until it is let go on."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from typing_extensions import override

from minara_llm.model import ModelEvent, ModelRequest, ModelText
from minara_llm.scripted import Script, ScriptedModel


class HeldModel(ScriptedModel):
    """Holds the answers with the numbers `held`, from 0, after their first text.

    `speaks` is set once it holds one, `was_left` counts the answers that nobody read to their end.
    """

    def __init__(self, scripts: Iterable[Script], *, held: Iterable[int] = (0,)) -> None:
        super().__init__(scripts)
        self.speaks = asyncio.Event()
        self.go_on = asyncio.Event()
        self.was_left = 0
        self._held = frozenset(held)

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        is_held = len(self.requests) in self._held
        is_whole = False
        try:
            async for event in super().stream(request):
                yield event
                if is_held and isinstance(event, ModelText):
                    is_held = False
                    self.speaks.set()
                    await self.go_on.wait()
            is_whole = True
        finally:
            self.was_left += not is_whole
