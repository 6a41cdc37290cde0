"""Lines from a terminal with editing and history, or from a pipe."""

import asyncio
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from minara_gateway.talking import StopAskedError


class TerminalLines:
    """Implements LineSource for a person at a terminal."""

    is_terminal = True
    reads_beside = True

    def __init__(self) -> None:
        self._session: PromptSession[str] = PromptSession(history=InMemoryHistory())

    @property
    def has_begun(self) -> bool:
        return self._session.app.is_running and bool(self._session.default_buffer.text)

    async def read(self, prompt: str) -> str | None:
        try:
            with patch_stdout(raw=True):
                return await self._session.prompt_async(prompt)
        except EOFError:
            return None
        except KeyboardInterrupt:
            raise StopAskedError from None


def readable(text: str) -> str:
    """Text as UTF-8 can carry it: bytes that were no UTF-8 become replacement characters."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class PipedLines:
    """Implements LineSource for text that is piped in."""

    is_terminal = False
    reads_beside = False
    has_begun = False

    def __init__(self, source: TextIO) -> None:
        self._source = source

    async def read(self, prompt: str) -> str | None:
        line = await asyncio.to_thread(self._source.readline)
        return readable(line) if line else None
