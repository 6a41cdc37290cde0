"""The fault switchboard of `minara dev venue --faults`: what a bad network does to requests.

`POST /faults` takes a `Faults` and sets the parts it names; `DELETE /faults` ends all of them;
`POST /faults/release` lets held requests go; `GET /state` lists every order of every account.
For tests alone: whoever reaches it may set the venue's clock and prices.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from minara_core.actions import MoveKind, PlacedOrder
from minara_core.clock import Clock, pause
from minara_tools.adapters.venue_paper import PaperVenue
from minara_tools.adapters.venue_paper_http_prices import ForcedPrices
from minara_tools.adapters.venue_paper_wire import from_json, to_plain

_REFUSED = 400
_STRICT = ConfigDict(extra="forbid")
"""A fault that is misspelt is no fault, and its test would prove nothing."""


class OffsetClock(Clock):
    """The venue's clock, `offset` away from the world's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset = timedelta()

    @override
    def now(self) -> datetime:
        return self._clock.now() + self.offset

    @override
    def monotonic(self) -> float:
        return self._clock.monotonic()


class FaultKind(StrEnum):
    """DELAY_REQUEST processes a request late and DELAY_REPLY answers late, both by `seconds`.
    PROCESS_TWICE delivers it again, `seconds` after its answer. HOLD gathers `count` requests and
    lets them go in reverse order."""

    DROP_REQUEST = "drop_request"
    DROP_REPLY = "drop_reply"
    DELAY_REQUEST = "delay_request"
    DELAY_REPLY = "delay_reply"
    PROCESS_TWICE = "process_twice"
    HOLD = "hold"
    ERROR_BEFORE = "error_before"
    ERROR_AFTER = "error_after"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """Holds for the first `count` requests (0: all) with this call and client id (empty: any)."""

    __pydantic_config__: ClassVar = _STRICT

    kind: FaultKind
    call: str = ""
    client_order_id: str = ""
    count: int = 1
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """None leaves a part as it is. `prices` in USD replaces all forced prices; "NaN" makes one
    unusable."""

    __pydantic_config__: ClassVar = _STRICT

    rules: tuple[FaultRule, ...] | None = None
    clock_offset_seconds: float | None = None
    prices: Mapping[str, str] | None = None


@dataclass
class _Armed:
    rule: FaultRule
    left: int

    def meets(self, call: str, client_order_id: str) -> bool:
        """Whether the rule holds for this request, which it then counts."""
        rule = self.rule
        if rule.call not in {"", call} or rule.client_order_id not in {"", client_order_id}:
            return False
        if rule.count and self.left == 0:
            return False
        self.left -= 1
        return True


@dataclass
class _Held:
    go: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class FaultSwitchboard:
    """Stands around the venue's app. `clock` and `prices` are those of `venue`."""

    def __init__(self, venue: PaperVenue, clock: OffsetClock, prices: ForcedPrices) -> None:
        self._venue = venue
        self._clock = clock
        self._prices = prices
        self._armed: list[_Armed] = []
        self._held: list[_Held] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/faults", self._set, methods=["POST"]),
            Route("/faults", self._clear, methods=["DELETE"]),
            Route("/faults/release", self._release_now, methods=["POST"]),
            Route("/state", self._state, methods=["GET"]),
        ]

    def around(self, app: ASGIApp) -> ASGIApp:
        """`app`, with the faults that are set."""

        async def faulty(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope.get("path", "")
            if scope["type"] != "http" or not path.startswith("/v1/"):
                await app(scope, receive, send)
                return
            body = await _body(receive)
            rules = self._rules(path.removeprefix("/v1/"), body)
            await self._disturb(rules, _Request(app, scope, body), send)

        return faulty

    async def _set(self, request: Request) -> Response:
        try:
            faults = from_json(await request.body(), Faults)
            forced = {name: Decimal(text) for name, text in (faults.prices or {}).items()}
        except (ValidationError, ArithmeticError) as error:
            return JSONResponse({"message": str(error)}, status_code=_REFUSED)
        if faults.rules is not None:
            self._armed = [_Armed(rule, rule.count) for rule in faults.rules]
        if faults.clock_offset_seconds is not None:
            self._clock.offset = timedelta(seconds=faults.clock_offset_seconds)
        if faults.prices is not None:
            self._prices.forced = forced
        return JSONResponse({})

    async def _clear(self, _: Request) -> Response:
        self._armed = []
        self._clock.offset = timedelta()
        self._prices.forced = {}
        self._release()
        return JSONResponse({})

    async def _release_now(self, _: Request) -> Response:
        self._release()
        return JSONResponse({})

    async def _state(self, _: Request) -> Response:
        orders = await self._venue.every_order()
        told = [_told(account, kind, placed) for account, kind, placed in orders]
        return JSONResponse({"orders": told, "held": len(self._held)})

    def _rules(self, call: str, body: bytes) -> Mapping[FaultKind, FaultRule]:
        client_order_id = _client_order_id(body)
        met = [armed.rule for armed in self._armed if armed.meets(call, client_order_id)]
        return {rule.kind: rule for rule in met}

    async def _disturb(
        self, rules: Mapping[FaultKind, FaultRule], request: "_Request", send: Send
    ) -> None:
        if FaultKind.DROP_REQUEST in rules:
            await _break_off(send)
            return
        if FaultKind.ERROR_BEFORE in rules:
            await _error(send)
            return
        if FaultKind.DELAY_REQUEST in rules:
            await pause(rules[FaultKind.DELAY_REQUEST].seconds)
        answer = await self._processed(rules, request)
        if FaultKind.PROCESS_TWICE in rules:
            await self._repeat(request, rules[FaultKind.PROCESS_TWICE].seconds)
        if FaultKind.DELAY_REPLY in rules:
            await pause(rules[FaultKind.DELAY_REPLY].seconds)
        if FaultKind.DROP_REPLY in rules:
            await _break_off(send)
        elif FaultKind.ERROR_AFTER in rules:
            await _error(send)
        else:
            for message in answer:
                await send(message)

    async def _processed(
        self, rules: Mapping[FaultKind, FaultRule], request: "_Request"
    ) -> list[Message]:
        if FaultKind.HOLD not in rules:
            return await request.process()
        held = _Held()
        self._held.append(held)
        if len(self._held) == rules[FaultKind.HOLD].count:
            self._release()
        await held.go.wait()
        try:
            return await request.process()
        finally:
            held.done.set()

    async def _repeat(self, request: "_Request", seconds: float) -> None:
        async def later() -> None:
            await pause(seconds)
            await request.process()

        if seconds == 0:
            await request.process()
        else:
            self._spawn(asyncio.create_task(later()))

    def _release(self) -> None:
        held, self._held = self._held, []

        async def one_by_one() -> None:
            for each in reversed(held):
                each.go.set()
                await each.done.wait()

        if held:
            self._spawn(asyncio.create_task(one_by_one()))

    def _spawn(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that was read whole and can be processed as often as wanted."""

    app: ASGIApp
    scope: Scope
    body: bytes

    async def process(self) -> list[Message]:
        answer: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": self.body, "more_body": False}

        async def send(message: Message) -> None:
            answer.append(message)

        await self.app(dict(self.scope), receive, send)
        return answer


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body


async def _break_off(send: Send) -> None:
    """Promise a body and leave: the server closes the connection on its reader."""
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": True})


async def _error(send: Send) -> None:
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _client_order_id(body: bytes) -> str:
    try:
        content: dict[str, Any] = json.loads(body)
        named = content.get("client_order_id") or content["arguments"].get("client_order_id", "")
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""
    return str(named)


def _told(account: str, kind: MoveKind, placed: PlacedOrder) -> dict[str, Any]:
    return {"account": account, "kind": kind.value, **to_plain(placed, PlacedOrder)}
