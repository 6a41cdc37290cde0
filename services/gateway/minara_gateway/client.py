"""The HTTP client that REPL and CLI speak through: one code path, attached or embedded."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
from httpx_sse import aconnect_sse

from minara_core.clock import pause
from minara_core.errors import InternalError, MinaraError, NotFound, Unavailable
from minara_core.reasons import error_reason
from minara_gateway.sse import STREAM_ENDED

CONNECT_SECONDS = 2.0
_RESUME_PAUSE_SECONDS = 0.25
_TERMINAL = frozenset({"turn_completed", "turn_failed", "turn_cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedEvent:
    """One turn event as it came over SSE: its name, its sequence, its own fields."""

    name: str
    sequence: int
    fields: dict[str, Any]


class ProblemError(MinaraError):
    """A problem document, as the gateway sent it."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(
            str(body.get("detail", f"HTTP {status}")),
            reason=error_reason(str(body.get("reason", ""))),
            metadata=cast("dict[str, str]", body.get("metadata", {})),
        )
        self.status = status


class GatewayClient:
    """Speaks to a gateway over its Unix socket or a URL, with a bearer token."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @classmethod
    def over_socket(cls, socket: Path, token: str) -> "GatewayClient":
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        return cls(_http("http://localhost", token, transport))

    @classmethod
    def over_url(cls, url: str, token: str) -> "GatewayClient":
        return cls(_http(url, token, httpx.AsyncHTTPTransport()))

    def set_header(self, name: str, value: str) -> None:
        """Send this header with every request from now on."""
        self._http.headers[name] = value

    async def healthy(self) -> bool:
        """Whether a gateway answers at all."""
        try:
            answer = await self._http.get("/healthz", timeout=CONNECT_SECONDS)
            return answer.status_code == 200
        except httpx.TransportError:
            return False

    async def call(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One request, one JSON object. Raises ProblemError, or Unavailable without an answer."""
        try:
            response = await self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise Unavailable("the gateway does not answer") from error
        _raise_for_problem(response.status_code, response.content)
        return cast("dict[str, Any]", response.json())

    async def stream(
        self, path: str, body: dict[str, Any] | None = None, *, resume_seconds: float = 0.0
    ) -> AsyncIterator[StreamedEvent]:
        """A turn's events; POST when there is a body, else GET.

        A stream that is cut is resumed, for `resume_seconds` from the last event on. Raises as
        `call`, and Unavailable when the stream ends without a terminal event.
        """
        loop = asyncio.get_running_loop()
        turn_id, last = "", 0
        end = loop.time() + resume_seconds
        while True:
            try:
                async for event in self._stream(path, body):
                    turn_id = str(event.fields.get("turn_id") or turn_id)
                    last, end = event.sequence, loop.time() + resume_seconds
                    yield event
                    if event.name in _TERMINAL:
                        return
                raise Unavailable("the stream ended without a terminal event; resume it")
            except Unavailable:
                if not turn_id or loop.time() >= end:
                    raise
            path, body = f"/v1/chat/stream/resume?turn_id={turn_id}&after={last}", None
            await pause(_RESUME_PAUSE_SECONDS)

    async def _stream(self, path: str, body: dict[str, Any] | None) -> AsyncIterator[StreamedEvent]:
        """One response's events, to its end. Raises as `call`."""
        method = "GET" if body is None else "POST"
        try:
            async with aconnect_sse(self._http, method, path, json=body) as source:
                if source.response.status_code != 200:
                    content = await source.response.aread()
                    _raise_for_problem(source.response.status_code, content)
                async for message in source.aiter_sse():
                    if message.event == STREAM_ENDED:
                        return
                    if message.data:  # else a retry hint alone
                        yield _event(message.event, message.id, message.data)
        except httpx.TransportError as error:
            raise Unavailable("the stream was cut; resume it") from error

    async def aclose(self) -> None:
        await self._http.aclose()


def _http(url: str, token: str, transport: httpx.AsyncHTTPTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url,
        transport=transport,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        trust_env=False,
    )


def _event(name: str, sequence: str, data: str) -> StreamedEvent:
    document = cast("dict[str, Any]", json.loads(data))
    fields = cast("dict[str, Any]", document.get(name, {}))
    return StreamedEvent(name=name, sequence=int(sequence or 0), fields=fields)


def _raise_for_problem(status: int, content: bytes) -> None:
    if status < 400:
        return
    try:
        body = cast("dict[str, Any]", json.loads(content))
    except ValueError as error:
        raise InternalError(f"the gateway answered {status} without a problem document") from error
    if status == 404 and not body.get("reason"):
        raise NotFound("no such route")
    raise ProblemError(status, body)
