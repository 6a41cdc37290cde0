"""The paper venue as another process serves it (`venue_paper_http_server`)."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import httpx

from minara_core.actions import PlacedOrder, ResolvedOrder, Side, TradingMode
from minara_core.clock import Clock, pause
from minara_core.errors import Unavailable
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import UserId
from minara_core.money import finite
from minara_tools.adapters.venue_paper import PAPER_CAPABILITIES, PAPER_NAME, check_request
from minara_tools.adapters.venue_paper_signing import (
    build_request,
    check_deadline,
    sign,
    signed_body,
)
from minara_tools.adapters.venue_paper_wire import (
    REFUSED,
    SEND,
    SIGNATURE_HEADER,
    NoArguments,
    OfAccount,
    OfOrder,
    OfUser,
    Refusal,
    Since,
    ToDeposit,
    ToQuote,
    from_json,
    to_plain,
)
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import (
    AssetNetwork,
    Balance,
    InstrumentRules,
    VenueAccount,
    VenueAnswer,
    VenueCapabilities,
    VenueFact,
    VenueQuote,
    VenueRequest,
)

T = TypeVar("T")
Trace = Callable[[str, Any], Awaitable[None]]

VENUE_WRITTEN = "venue.written"
"""Failpoint: the request's bytes are handed to the socket, nothing of the answer is read."""

VENUE_UNREACHABLE = "VENUE_UNREACHABLE"
ANSWER_SECONDS = 10.0
CONNECT_SECONDS = 2.0
_OK = 200
_IDLE_SECONDS = 2.0
"""Less than the server keeps a connection: one that it closes meanwhile would leave a doubt."""


class HttpPaperVenue:
    """Implements Venue over HTTP. `secret` is the server's; no request is ever repeated.

    What fails before a request's first byte certainly reached nobody (ToolFailed
    VENUE_UNREACHABLE); whatever fails later leaves the outcome unknown (Unavailable).
    """

    def __init__(
        self,
        url: str,
        secret: bytes,
        clock: Clock,
        *,
        failpoint: Failpoint = no_failpoint,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._secret = secret
        self._clock = clock
        self._failpoint = failpoint
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=httpx.Timeout(answer_seconds, connect=CONNECT_SECONDS),
            limits=httpx.Limits(keepalive_expiry=_IDLE_SECONDS),
            trust_env=False,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    @property
    def name(self) -> str:
        return PAPER_NAME

    @property
    def mode(self) -> TradingMode:
        return TradingMode.PAPER

    @property
    def capabilities(self) -> VenueCapabilities:
        return PAPER_CAPABILITIES

    async def instruments(self) -> tuple[InstrumentRules, ...]:
        return await self._call("instruments", NoArguments(), tuple[InstrumentRules, ...])

    async def networks(self) -> tuple[AssetNetwork, ...]:
        return await self._call("networks", NoArguments(), tuple[AssetNetwork, ...])

    async def account(self, user_id: UserId) -> str:
        return (await self.accounts(user_id))[0].account

    async def accounts(self, user_id: UserId) -> tuple[VenueAccount, ...]:
        return await self._call("accounts", OfUser(user_id=user_id), tuple[VenueAccount, ...])

    async def balances(self, account: str) -> tuple[Balance, ...]:
        return await self._call("balances", OfAccount(account=account), tuple[Balance, ...])

    async def quote(self, symbol: str, side: Side, quantity: Decimal) -> VenueQuote:
        arguments = ToQuote(symbol=symbol, side=side, quantity=finite(quantity))
        return await self._call("quote", arguments, VenueQuote)

    async def prepare(self, order: ResolvedOrder, client_order_id: str) -> VenueRequest:
        check_request(order, client_order_id)
        return build_request(self._secret, order, client_order_id, self._clock)

    async def send(self, request: VenueRequest) -> VenueAnswer:
        check_deadline(request, self._clock)
        written = _Written(lambda: check_deadline(request, self._clock), self._failpoint)
        content = await self._post(SEND, request.body, request.signature, written)
        return _read(content, VenueAnswer)

    async def cancel_order(self, account: str, client_order_id: str) -> VenueAnswer:
        arguments = OfOrder(account=account, client_order_id=client_order_id)
        return await self._call("cancel", arguments, VenueAnswer)

    async def find_order(self, account: str, client_order_id: str) -> PlacedOrder | None:
        arguments = OfOrder(account=account, client_order_id=client_order_id)
        found = await self._call("find_order", arguments, tuple[PlacedOrder, ...])
        return found[0] if found else None

    async def open_orders(self, account: str) -> tuple[PlacedOrder, ...]:
        return await self._call("open_orders", OfAccount(account=account), tuple[PlacedOrder, ...])

    async def closed_orders(self, account: str, since: datetime) -> tuple[PlacedOrder, ...]:
        arguments = Since(account=account, since=since)
        return await self._call("closed_orders", arguments, tuple[PlacedOrder, ...])

    async def facts(self, account: str, since: datetime) -> tuple[VenueFact, ...]:
        arguments = Since(account=account, since=since)
        return await self._call("facts", arguments, tuple[VenueFact, ...])

    async def deposit(self, account: str, asset: str, amount: Decimal) -> None:
        """Money from outside, for tests; raises as the embedded venue does."""
        arguments = ToDeposit(account=account, asset=asset, amount=amount)
        await self._call("deposit", arguments, NoArguments)

    async def _call(self, call: str, arguments: object, kind: type[T]) -> T:
        content = {"arguments": to_plain(arguments, type(arguments))}
        body = signed_body(content, self._clock.now())
        written = _Written(lambda: None, no_failpoint)
        try:
            answer = await self._post(call, body, sign(self._secret, body), written)
        except ToolFailed as error:
            if error.reason == VENUE_UNREACHABLE and call != "cancel":
                raise Unavailable(error.message) from error
            raise
        return _read(answer, kind)

    async def _post(self, call: str, body: str, signature: str, written: "_Written") -> bytes:
        headers = {SIGNATURE_HEADER: signature, "Content-Type": "application/json"}
        try:
            answer = await self._http.post(
                f"/v1/{call}", content=body, headers=headers, extensions={"trace": written.trace}
            )
        except httpx.TransportError as error:
            if not written.has_begun:
                raise ToolFailed(VENUE_UNREACHABLE, "the venue cannot be reached") from error
            raise Unavailable("the venue did not answer") from error
        if answer.status_code == REFUSED:
            refusal = _read(answer.content, Refusal)
            raise ToolFailed(refusal.reason, refusal.message)
        if answer.status_code != _OK:
            raise Unavailable(f"the venue answered {answer.status_code}")
        return answer.content


class _Written:
    """Follows one request on its way to the socket."""

    def __init__(self, before_first_byte: Callable[[], None], failpoint: Failpoint) -> None:
        self._before_first_byte = before_first_byte
        self._failpoint = failpoint
        self.has_begun = False

    async def trace(self, event: str, _: Any) -> None:
        match event:
            case "http11.send_request_headers.started":
                self._before_first_byte()
                self.has_begun = True
            case "http11.send_request_body.complete":
                # Some loops keep what is written until their turn ends: let it reach the socket.
                await pause(0)
                self._failpoint(VENUE_WRITTEN)
            case _:
                pass


def _read(content: bytes, kind: type[T]) -> T:
    try:
        return from_json(content, kind)
    except ValueError as error:
        raise Unavailable("the venue answered what nobody can read") from error
