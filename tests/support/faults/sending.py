"""Venues of the fault harness: the real client, which writes down what it sends, and two bugs."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from typing_extensions import override

from minara_core.actions import ResolvedOrder
from minara_core.clock import Clock, pause
from minara_core.errors import MinaraError
from minara_core.failpoints import Failpoint
from minara_runtime.database import Database
from minara_tools.adapters.sql_ledger_check import read_books
from minara_tools.adapters.venue_paper_http import HttpPaperVenue
from minara_tools.domain.action_json import read_json
from minara_tools.domain.operations import OperationState
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.venue_terms import VenueAnswer, VenueRequest

_A_MINUTE = timedelta(minutes=1)
_IN_DOUBT = frozenset({OperationState.SENT, OperationState.UNCERTAIN})


class RecordingVenue(HttpPaperVenue):
    """The client of production; every call of `send` leaves a line in `sends`: who, client id,
    until when the venue takes it."""

    def __init__(
        self,
        url: str,
        secret: bytes,
        clock: Clock,
        *,
        failpoint: Failpoint,
        sends: Path,
        owner: Callable[[], str],
    ) -> None:
        super().__init__(url, secret, clock, failpoint=failpoint)
        self._sends = sends
        self._owner = owner

    @override
    async def send(self, request: VenueRequest) -> VenueAnswer:
        until = read_json(request.body)["not_after"]
        with self._sends.open("a") as file:
            file.write(f"{self._owner()} {request.client_order_id} {until}\n")
        return await super().send(request)


class HastyVenue(RecordingVenue):
    """A bug: says that a request is over long before the venue thinks so."""

    @override
    async def prepare(self, order: ResolvedOrder, client_order_id: str) -> VenueRequest:
        request = await super().prepare(order, client_order_id)
        return replace(request, not_after=request.sign_time - _A_MINUTE)


class EarlyVenue(RecordingVenue):
    """A bug: what is prepared has left already, before anybody wrote down that it would."""

    @override
    async def prepare(self, order: ResolvedOrder, client_order_id: str) -> VenueRequest:
        request = await super().prepare(order, client_order_id)
        try:
            await super().send(request)
        except (ToolFailed, MinaraError):
            await pause(0)
        return request

    @override
    async def send(self, request: VenueRequest) -> VenueAnswer:
        found = await self.find_order(request.account, request.client_order_id)
        if found is None:
            return await super().send(request)
        return VenueAnswer(order=found)


async def resend_forever(database: Database, venue: RecordingVenue) -> None:
    """A bug: whatever is in doubt and not at the venue is signed and sent once more."""
    while True:
        books = await database.read(read_books)
        for one in books.operations:
            if one.state in _IN_DOUBT:
                try:
                    if await venue.find_order(one.order.account, one.client_order_id) is None:
                        await venue.send(await venue.prepare(one.order, one.client_order_id))
                except (ToolFailed, MinaraError):
                    continue
        await pause(0.1)
