"""The served paper venue: what a client may conclude when the way to it, or back, is broken."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from typing_extensions import override

from minara_core.actions import PlacedState, Side
from minara_core.errors import Unavailable
from minara_tools.adapters.venue_paper import PAPER_VERSIONS, PaperVenue
from minara_tools.adapters.venue_paper_http import VENUE_WRITTEN, HttpPaperVenue
from minara_tools.adapters.venue_paper_http_faults import FaultSwitchboard, OffsetClock
from minara_tools.adapters.venue_paper_http_prices import ForcedPrices
from minara_tools.adapters.venue_paper_http_server import venue_app
from minara_tools.adapters.venue_paper_signing import sign, signed_body
from minara_tools.dev_venue import serving
from minara_tools.domain.outcomes import ToolFailed
from support.clock import FixedClock
from support.databases import Databases
from support.eventually import eventually
from support.tools.venue_places import FIRST, ME, PRICES, SECOND, SECRET, Place
from support.tools_world import STARTING, FakeMarket

NOWHERE = "http://127.0.0.1:1"


@dataclass
class Served(Place):
    """A client of a served venue, and the switchboard of its faults."""

    url: str = ""
    control: httpx.AsyncClient | None = None

    async def fault(self, kind: str, **rule: Any) -> None:
        await self.faults({"rules": [{"kind": kind, "call": "send"} | rule]})

    async def faults(self, body: Mapping[str, Any]) -> None:
        assert self.control is not None
        (await self.control.post("/faults", json=body)).raise_for_status()

    async def release(self) -> None:
        assert self.control is not None
        await self.control.post("/faults/release")

    async def state(self) -> dict[str, Any]:
        assert self.control is not None
        return (await self.control.get("/state")).json()

    async def order_ids(self) -> list[str]:
        return [order["client_order_id"] for order in (await self.state())["orders"]]

    async def send_unknown(self, client_order_id: str = FIRST) -> None:
        """Send a purchase, of which the client does not learn what came."""
        with pytest.raises(Unavailable):
            await self.sent(await self.trade(), client_order_id)


@pytest.fixture
async def served(sqlite_databases: Databases) -> AsyncGenerator[Served]:
    clock = FixedClock()
    market = FakeMarket(clock, PRICES)
    database = await sqlite_databases.open(PAPER_VERSIONS)
    venue_clock, prices = OffsetClock(clock), ForcedPrices(market)
    venue = PaperVenue(database, prices, venue_clock, starting_balances=STARTING, secret=SECRET)
    switchboard = FaultSwitchboard(venue, venue_clock, prices)
    async with (
        serving(venue_app(venue, venue_clock, SECRET, switchboard)) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as control,
    ):
        client = HttpPaperVenue(url, SECRET, clock, answer_seconds=1.0)
        yield Served(client, market, clock, url=url, control=control)
        await client.aclose()


async def test_a_lost_reply_leaves_a_doubt_and_an_order(served: Served) -> None:
    await served.fault("drop_reply")
    await served.send_unknown()
    found = await served.venue.find_order(await served.account(), FIRST)
    assert found is not None
    assert found.state is PlacedState.FILLED


async def test_a_lost_request_leaves_a_doubt_and_nothing(served: Served) -> None:
    await served.fault("drop_request")
    await served.send_unknown()
    assert await served.venue.find_order(await served.account(), FIRST) is None


@pytest.mark.parametrize(("kind", "count"), [("error_before", 0), ("error_after", 1)])
async def test_an_error_of_the_server_says_nothing_about_the_order(
    served: Served, kind: str, count: int
) -> None:
    await served.fault(kind)
    await served.send_unknown()
    assert len(await served.order_ids()) == count


async def test_an_answer_that_comes_too_late_leaves_a_doubt(served: Served) -> None:
    await served.fault("delay_reply", seconds=1.5)
    await served.send_unknown()
    assert await served.order_ids() == [FIRST]


async def test_a_request_that_is_held_past_its_validity_is_refused(served: Served) -> None:
    await served.fault("hold", count=0)
    order = await served.trade()
    sending = asyncio.create_task(served.sent(order, FIRST))

    async def is_held() -> bool:
        return (await served.state())["held"] == 1

    await eventually(is_held)
    served.clock.advance(timedelta(seconds=6))
    await served.release()
    with pytest.raises(ToolFailed) as failed:
        await sending
    assert failed.value.reason == "REQUEST_EXPIRED"
    assert await served.order_ids() == []


async def test_a_request_delivered_twice_is_one_order(served: Served) -> None:
    await served.fault("process_twice")
    placed = await served.placed(await served.trade(), FIRST)
    assert placed.state is PlacedState.FILLED
    assert await served.order_ids() == [FIRST]
    assert await served.free("ETH") == placed.received


async def test_a_late_duplicate_changes_nothing(served: Served) -> None:
    await served.fault("process_twice", seconds=0.05)
    served.market.prices_usd["ETH"] = Decimal("NaN")
    refused = await served.placed(await served.trade(), FIRST)
    served.market.prices_usd["ETH"] = Decimal(2_500)
    for _ in range(10):
        assert await served.placed(await served.trade(), FIRST) == refused
    assert await served.free("ETH") == 0


async def test_held_requests_go_in_reverse_order(served: Served) -> None:
    await served.fault("hold", count=2)
    order = await served.trade()
    first = asyncio.create_task(served.sent(order, FIRST))

    async def is_held() -> bool:
        return (await served.state())["held"] == 1

    await eventually(is_held)
    second = await served.sent(order, SECOND)
    assert (await first).order.state is second.order.state is PlacedState.FILLED
    told = [fact.client_order_id for fact in await served.facts() if fact.quantity]
    assert told == ["", SECOND, FIRST]


async def test_a_fault_holds_for_its_client_id_alone(served: Served) -> None:
    await served.fault("drop_request", client_order_id=SECOND, count=0)
    assert (await served.placed(await served.trade(), FIRST)).state is PlacedState.FILLED
    await served.send_unknown(SECOND)
    await served.send_unknown(SECOND)
    assert served.control is not None
    await served.control.delete("/faults")
    assert (await served.placed(await served.trade(), SECOND)).state is PlacedState.FILLED


async def test_the_venues_clock_alone_decides_what_is_late(served: Served) -> None:
    order = await served.trade()
    await served.faults({"clock_offset_seconds": 5.5})
    with pytest.raises(ToolFailed) as failed:
        await served.sent(order, FIRST)
    assert failed.value.reason == "REQUEST_EXPIRED"
    await served.faults({"clock_offset_seconds": 0})
    assert await served.order_ids() == []


async def test_a_misspelt_fault_is_refused(served: Served) -> None:
    assert served.control is not None
    misspelt = '{"rules": [{"kind": "drop_reply", "path": "send"}]}'
    for body in ('{"rule": []}', misspelt, '{"rules": 7}', "[", '{"prices": {"ETH": "?"}}'):
        assert (await served.control.post("/faults", content=body)).status_code == 400


async def test_forced_prices_stand_until_they_are_cleared(served: Served) -> None:
    await served.faults({"prices": {"ETH": "3000"}})
    quote = await served.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    assert quote.best_price > Decimal(3_000)
    await served.faults({"prices": {"ETH": "NaN"}})
    with pytest.raises(ToolFailed):
        await served.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    await served.faults({"prices": {}})
    quote = await served.venue.quote("ETH/USDC", Side.BUY, Decimal(1))
    assert quote.best_price < Decimal(2_600)


async def test_a_request_that_could_not_be_sent_was_certainly_not_taken(served: Served) -> None:
    away = HttpPaperVenue(NOWHERE, SECRET, served.clock)
    request = await away.prepare(await served.trade(), FIRST)
    with pytest.raises(ToolFailed) as failed:
        await away.send(request)
    assert failed.value.reason == "VENUE_UNREACHABLE"
    for asked in (away.find_order(request.account, FIRST), away.balances(request.account)):
        with pytest.raises(Unavailable):
            await asked
    await away.aclose()


class Stalling(FixedClock):
    """Six seconds pass after the third look at the monotonic clock."""

    looks = 0

    @override
    def monotonic(self) -> float:
        self.looks += 1
        return super().monotonic() + (6.0 if self.looks > 2 else 0.0)


async def test_the_deadline_is_checked_right_before_the_first_byte(served: Served) -> None:
    stalling = HttpPaperVenue(served.url, SECRET, Stalling())
    request = await stalling.prepare(await served.trade(), FIRST)
    with pytest.raises(ToolFailed) as failed:
        await stalling.send(request)
    assert failed.value.reason == "REQUEST_EXPIRED"
    assert await served.order_ids() == []
    on_time = replace(request, deadline=None)
    assert (await stalling.send(on_time)).order.state is PlacedState.FILLED
    await stalling.aclose()


async def test_the_failpoint_lies_between_request_and_answer(served: Served) -> None:
    named: list[str] = []

    def killed(name: str) -> None:
        named.append(name)
        raise KeyError(name)

    client = HttpPaperVenue(served.url, SECRET, served.clock, failpoint=killed)
    assert await client.account(ME) == await served.account()
    assert named == []
    request = await client.prepare(await served.trade(), FIRST)
    with pytest.raises(KeyError):
        await client.send(request)
    assert named == [VENUE_WRITTEN]

    async def is_taken() -> bool:
        return await served.order_ids() == [FIRST]

    await eventually(is_taken)
    await client.aclose()


async def test_a_request_is_never_repeated() -> None:
    met: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.append(await reader.read(65_536))
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = HttpPaperVenue(f"http://127.0.0.1:{port}", SECRET, FixedClock())
    with pytest.raises(Unavailable):
        await client.balances("an account")
    assert len(met) == 1
    await client.aclose()
    server.close()
    await server.wait_closed()


async def test_another_secret_reads_nothing_either(served: Served) -> None:
    account = await served.account()
    stranger = HttpPaperVenue(served.url, b"some other secret", served.clock)
    for asked in (stranger.balances(account), stranger.cancel_order(account, FIRST)):
        with pytest.raises(ToolFailed) as failed:
            await asked
        assert failed.value.reason == "SIGNATURE_INVALID"
    await stranger.aclose()


@pytest.mark.parametrize(
    ("call", "content"),
    [
        ("balances", {"arguments": {"account": 7}}),
        ("balances", {}),
        ("send", {"order": {}}),
        ("steal", {"arguments": {}}),
    ],
)
async def test_a_signed_request_that_makes_no_sense_is_refused(
    served: Served, call: str, content: dict[str, Any]
) -> None:
    assert served.control is not None
    body = signed_body(content, served.clock.now())
    answer = await served.control.post(
        f"/v1/{call}", content=body, headers={"Minara-Signature": sign(SECRET, body)}
    )
    assert answer.status_code == 400


async def test_only_loopback_names_are_served(served: Served) -> None:
    assert served.control is not None
    answer = await served.control.get("/state", headers={"Host": "evil.example"})
    assert answer.status_code == 400


async def test_without_the_switchboard_nobody_sets_faults(served: Served) -> None:
    market = FakeMarket(served.clock)
    venue = PaperVenue(_never(), market, served.clock, starting_balances=STARTING)
    async with (
        serving(venue_app(venue, served.clock, SECRET)) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as control,
    ):
        assert (await control.post("/faults", json={})).status_code == 404
        assert (await control.get("/state")).status_code == 404
        assert (await control.get("/healthz")).status_code == 200


def _never() -> Any:
    """A database that is not used."""
    return None
