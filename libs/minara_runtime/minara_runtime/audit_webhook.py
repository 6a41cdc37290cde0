"""Sends each checkpoint to a store outside this machine, from the file and in its order.

At least once: how far it has come stands in `<file>.sent`, and the receiver knows a checkpoint by
its service and number. A store that is down holds up nothing and loses nothing.
"""

import asyncio
import http.client
import json
import ssl
from urllib.parse import urlsplit

from minara_core.clock import pause
from minara_core.errors import Unavailable
from minara_runtime.audit_checkpoint_file import CheckpointFile
from minara_runtime.logging import get_logger
from minara_runtime.private_files import write_whole

FIRST_BACK_OFF_SECONDS = 1.0
LONGEST_BACK_OFF_SECONDS = 60.0
EVERY_SECONDS = 60.0

_TIMEOUT_SECONDS = 5.0
_KNOWN_ALREADY = http.client.CONFLICT
"""What a write-once store says to a checkpoint that it holds."""


class CheckpointSender:
    """`url` is https, or http on loopback, as the settings checked. Redirects are not followed."""

    def __init__(
        self,
        file: CheckpointFile,
        url: str,
        *,
        service: str,
        first_back_off_seconds: float = FIRST_BACK_OFF_SECONDS,
    ) -> None:
        self._file = file
        self._url = url
        self._service = service
        self._first_back_off_seconds = first_back_off_seconds
        self._sent = file.path.with_name(f"{file.path.name}.sent")
        self._written = asyncio.Event()
        self._log = get_logger("audit")

    def notice(self) -> None:
        """There is something new in the file."""
        self._written.set()

    async def run_forever(self) -> None:
        """Send what the file holds and then what comes; runs until cancelled."""
        while True:
            self._written.clear()
            await self._send_all()
            try:
                async with asyncio.timeout(EVERY_SECONDS):
                    await self._written.wait()
            except TimeoutError:
                pass  # another replica may have written

    async def _send_all(self) -> None:
        offset = await asyncio.to_thread(self._offset)
        while (found := await asyncio.to_thread(self._next, offset)) is not None:
            line, offset = found
            await self._send(line)
            await asyncio.to_thread(self._remember, offset)

    async def _send(self, line: bytes) -> None:
        """Again and again until it is taken."""
        back_off = self._first_back_off_seconds
        while True:
            try:
                return await asyncio.to_thread(self._post, line)
            except (Unavailable, OSError, http.client.HTTPException) as error:
                self._log.warning(
                    "checkpoint_not_sent",
                    service=self._service,
                    why=str(error) or type(error).__name__,
                )
            await pause(back_off)
            back_off = min(2 * back_off, LONGEST_BACK_OFF_SECONDS)

    def _post(self, line: bytes) -> None:
        url = urlsplit(self._url)
        host = url.hostname or ""
        if url.scheme == "https":
            connection = http.client.HTTPSConnection(
                host, url.port, timeout=_TIMEOUT_SECONDS, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(host, url.port, timeout=_TIMEOUT_SECONDS)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = {"Content-Type": "application/json", "Minara-Service": self._service}
        try:
            connection.request("POST", target, body=line, headers=headers)
            answer = connection.getresponse()
            if not (200 <= answer.status < 300 or answer.status == _KNOWN_ALREADY):
                raise Unavailable(f"the audit webhook answered {answer.status}")
        finally:
            connection.close()

    def _offset(self) -> int:
        """How far was sent; 0 when that cannot be read or the file is shorter."""
        try:
            offset = int(json.loads(self._sent.read_bytes())["offset"])
            return offset if 0 <= offset <= self._file.path.stat().st_size else 0
        except (OSError, ValueError, TypeError, KeyError):
            return 0

    def _next(self, offset: int) -> tuple[bytes, int] | None:
        return next(self._file.lines(offset), None)

    def _remember(self, offset: int) -> None:
        write_whole(self._sent, json.dumps({"offset": offset}).encode())
