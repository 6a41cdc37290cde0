"""Serves a PaperVenue over HTTP on loopback; how, is said in `venue_paper_wire`."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from minara_core.actions import PlacedOrder
from minara_core.clock import Clock
from minara_core.errors import InvalidRequest, Unavailable
from minara_core.ids import UserId
from minara_tools.adapters.venue_paper import PaperVenue
from minara_tools.adapters.venue_paper_http_faults import FaultSwitchboard
from minara_tools.adapters.venue_paper_signing import (
    REQUEST_EXPIRED,
    check_signature,
    read_window,
)
from minara_tools.adapters.venue_paper_wire import (
    REFUSED,
    SEND,
    SIGNATURE_HEADER,
    NoArguments,
    OfAccount,
    OfOrder,
    OfUser,
    Since,
    ToDeposit,
    ToQuote,
    from_plain,
    to_json,
)
from minara_tools.domain.action_json import read_json
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import (
    AssetNetwork,
    Balance,
    InstrumentRules,
    VenueAccount,
    VenueAnswer,
    VenueFact,
    VenueQuote,
)

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

Call = Callable[[Any], Awaitable[bytes]]


def venue_app(
    venue: PaperVenue, clock: Clock, secret: bytes, faults: FaultSwitchboard | None = None
) -> ASGIApp:
    """The app over `venue`, whose clock and secret these are. With `faults` it has the fault
    switchboard too (`/faults`, `/state`), which is for tests alone."""
    server = _Server(venue, clock, secret)
    routes = [
        Route("/healthz", _healthy, methods=["GET"]),
        Route("/v1/{call}", server.answer, methods=["POST"]),
    ]
    if faults is not None:
        routes += faults.routes
    app = Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(_LOOPBACK))],
    )
    return app if faults is None else faults.around(app)


async def _healthy(_: Request) -> Response:
    return JSONResponse({"ok": True})


class _Server:
    """Reads a request, checks who signed it and when, and lets the venue answer."""

    def __init__(self, venue: PaperVenue, clock: Clock, secret: bytes) -> None:
        self._venue = venue
        self._clock = clock
        self._secret = secret
        self._calls: Mapping[str, tuple[Any, Call]] = MappingProxyType(self._made_calls())

    async def answer(self, request: Request) -> Response:
        body = (await request.body()).decode("utf-8", "replace")
        signature = request.headers.get(SIGNATURE_HEADER, "")
        try:
            content = await self._answer(request.path_params["call"], body, signature)
        except ToolFailed as error:
            return _refused(error.reason, error.message, REFUSED)
        except InvalidRequest as error:
            return _refused(error.reason, error.message, 400)
        except Unavailable as error:
            return _refused(error.reason, error.message, 503)
        return Response(content, media_type="application/json")

    async def _answer(self, call: str, body: str, signature: str) -> bytes:
        if call == SEND:
            return to_json(await self._venue.receive(body, signature), VenueAnswer)
        if call not in self._calls:
            raise InvalidRequest(f"there is no call {call[:40]!r}")
        kind, made = self._calls[call]
        check_signature(self._secret, body, signature)
        try:
            content = read_json(body)
            window, arguments = read_window(content), from_plain(content["arguments"], kind)
        except (KeyError, ValueError, TypeError) as error:
            raise InvalidRequest("this is no request of the paper venue") from error
        now = self._clock.now()
        if window.is_late(now) or window.is_early(now):
            raise ToolFailed(REQUEST_EXPIRED, "the request came outside its validity")
        return await made(arguments)

    def _made_calls(self) -> dict[str, tuple[Any, Call]]:
        return {
            "instruments": (NoArguments, self._instruments),
            "networks": (NoArguments, self._networks),
            "accounts": (OfUser, self._accounts),
            "balances": (OfAccount, self._balances),
            "quote": (ToQuote, self._quote),
            "cancel": (OfOrder, self._cancel),
            "find_order": (OfOrder, self._find_order),
            "open_orders": (OfAccount, self._open_orders),
            "closed_orders": (Since, self._closed_orders),
            "facts": (Since, self._facts),
            "deposit": (ToDeposit, self._deposit),
        }

    async def _instruments(self, _: NoArguments) -> bytes:
        return to_json(await self._venue.instruments(), tuple[InstrumentRules, ...])

    async def _networks(self, _: NoArguments) -> bytes:
        return to_json(await self._venue.networks(), tuple[AssetNetwork, ...])

    async def _accounts(self, asked: OfUser) -> bytes:
        found = await self._venue.accounts(UserId(asked.user_id))
        return to_json(found, tuple[VenueAccount, ...])

    async def _balances(self, asked: OfAccount) -> bytes:
        return to_json(await self._venue.balances(asked.account), tuple[Balance, ...])

    async def _quote(self, asked: ToQuote) -> bytes:
        quote = await self._venue.quote(asked.symbol, asked.side, asked.quantity)
        return to_json(quote, VenueQuote)

    async def _cancel(self, asked: OfOrder) -> bytes:
        answer = await self._venue.cancel_order(asked.account, asked.client_order_id)
        return to_json(answer, VenueAnswer)

    async def _find_order(self, asked: OfOrder) -> bytes:
        found = await self._venue.find_order(asked.account, asked.client_order_id)
        return to_json(() if found is None else (found,), tuple[PlacedOrder, ...])

    async def _open_orders(self, asked: OfAccount) -> bytes:
        return to_json(await self._venue.open_orders(asked.account), tuple[PlacedOrder, ...])

    async def _closed_orders(self, asked: Since) -> bytes:
        found = await self._venue.closed_orders(asked.account, asked.since)
        return to_json(found, tuple[PlacedOrder, ...])

    async def _facts(self, asked: Since) -> bytes:
        found = await self._venue.facts(asked.account, asked.since)
        return to_json(found, tuple[VenueFact, ...])

    async def _deposit(self, asked: ToDeposit) -> bytes:
        await self._venue.deposit(asked.account, asked.asset, asked.amount)
        return to_json(NoArguments(), NoArguments)


def _refused(reason: str, message: str, code: int) -> Response:
    return JSONResponse({"reason": str(reason), "message": message}, status_code=code)
