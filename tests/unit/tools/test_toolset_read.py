"""The tools of sets `read` and `file`: what they answer, exactly, and what they refuse."""

from decimal import Decimal
from typing import Any, cast

import pytest
from pydantic import ValidationError

from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_tools.domain.arguments import validated
from minara_tools.domain.outcomes import SandboxEscapeError, ToolCallBlockedError, ToolFailed
from minara_tools.domain.registry import ToolEntry, ToolRegistry
from minara_tools.toolsets.catalog import builtin_tools
from support.clock import FixedClock
from support.tools.all_tools import all_tools
from support.tools.venue import FakeVenue
from support.tools_world import FakeFiles, FakeMarket, a_context


class House:
    """All tools over fakes."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.market = FakeMarket(self.clock)
        self.venue = FakeVenue(self.market, self.clock)
        self.files = FakeFiles()
        entries = builtin_tools(
            market=self.market, venue=self.venue, files=self.files, clock=self.clock
        )
        self.registry = ToolRegistry(entries)

    def entry(self, name: str) -> ToolEntry:
        return self.registry.entries[name]

    async def call(self, name: str, **arguments: object) -> dict[str, Any]:
        entry = self.entry(name)
        assert entry.handler is not None
        answer = await entry.handler(entry.arguments.model_validate(arguments), a_context())
        assert isinstance(answer, dict)
        return cast("dict[str, Any]", answer)


@pytest.fixture
def house() -> House:
    return House()


def test_the_tools_have_the_tiers_of_the_design() -> None:
    tiers = {entry.name: entry.permission_tier for entry in all_tools()}
    assert tiers == {
        "get_price": PermissionTier.READ_ONLY,
        "get_trending": PermissionTier.READ_ONLY,
        "get_fear_greed": PermissionTier.READ_ONLY,
        "search_tokens": PermissionTier.READ_ONLY,
        "get_portfolio": PermissionTier.READ_ONLY,
        "minara_account": PermissionTier.READ_ONLY,
        "minara_total_balance": PermissionTier.READ_ONLY,
        "get_orders": PermissionTier.READ_ONLY,
        "get_fills": PermissionTier.READ_ONLY,
        "get_limits": PermissionTier.READ_ONLY,
        "get_trading_state": PermissionTier.READ_ONLY,
        "minara_pnl": PermissionTier.READ_ONLY,
        "read_result": PermissionTier.READ_ONLY,
        "read_file": PermissionTier.READ_ONLY,
        "write_file": PermissionTier.CONFIRM_ONCE,
        "buy_token": PermissionTier.CONFIRM_ONCE,
        "sell_token": PermissionTier.CONFIRM_ONCE,
        "swap_tokens": PermissionTier.CONFIRM_ONCE,
        "place_limit_order": PermissionTier.CONFIRM_ONCE,
        "cancel_order": PermissionTier.CONFIRM_ONCE,
        "transfer_token": PermissionTier.ALWAYS_CONFIRM,
        "withdraw_token": PermissionTier.MANUAL_ONLY,
        "send_external": PermissionTier.MANUAL_ONLY,
    }
    moving = {entry.name for entry in all_tools() if entry.is_fund_moving}
    assert moving == {
        "buy_token", "sell_token", "swap_tokens", "place_limit_order", "cancel_order",
        "transfer_token", "withdraw_token", "send_external",
    }  # fmt: skip
    exits = {entry.name for entry in all_tools() if entry.may_exit}
    assert exits == {"sell_token", "swap_tokens", "cancel_order"}
    from_outside = {entry.name for entry in all_tools() if entry.untrusted_output}
    assert from_outside == {
        "get_price", "get_trending", "get_fear_greed", "search_tokens", "read_file", "read_result"
    }  # fmt: skip


def test_every_schema_forbids_what_it_does_not_name() -> None:
    for entry in all_tools():
        assert entry.arguments.model_json_schema()["additionalProperties"] is False
        with pytest.raises(ToolCallBlockedError):
            validated(entry, '{"surprise": 1}')


async def test_a_price(house: House) -> None:
    assert await house.call("get_price", symbol="ETH") == {
        "symbol": "ETH",
        "name": "Eth",
        "price": "2500",
        "currency": "USD",
        "change_24h_percent": "-1.5",
        "as_of": "2026-11-30T12:00:00Z",
        "source": "fake",
    }


@pytest.mark.parametrize("text", ["eth", "$ETH", " ether ", "Ethereum", "以太坊", "이더리움"])
async def test_a_price_by_any_name(house: House, text: str) -> None:
    assert (await house.call("get_price", symbol=text))["symbol"] == "ETH"


async def test_a_price_of_two_assets_is_refused(house: House) -> None:
    with pytest.raises(ToolFailed) as failed:
        await house.call("get_price", symbol="bitcoin or ether")
    assert failed.value.reason == DenialReason.TOKEN_AMBIGUOUS


async def test_a_price_of_something_unknown_is_unavailable(house: House) -> None:
    with pytest.raises(ToolFailed) as failed:
        await house.call("get_price", symbol="NOSUCH")
    assert failed.value.reason == DenialReason.PRICE_UNAVAILABLE


async def test_trending(house: House) -> None:
    answer = await house.call("get_trending", limit=2)
    assert (answer["source"], answer["as_of"]) == ("fake", "2026-11-30T12:00:00Z")
    assert answer["tokens"] == [
        {"symbol": "BTC", "name": "Btc", "price": "100000", "change_24h_percent": "-1.5"},
        {"symbol": "DOGE", "name": "Doge", "price": "0.2", "change_24h_percent": "-1.5"},
    ]


async def test_the_mood(house: House) -> None:
    assert await house.call("get_fear_greed") == {
        "value": "54",
        "classification": "Neutral",
        "as_of": "2026-11-30T12:00:00Z",
        "source": "fake",
    }


async def test_search(house: House) -> None:
    assert await house.call("search_tokens", query="doge") == {
        "tokens": [{"symbol": "DOGE", "name": "Doge", "asset_class": "crypto_alt"}],
        "source": "fake",
    }
    with pytest.raises(ToolFailed) as failed:
        await house.call("search_tokens", query="nothing like it")
    assert failed.value.reason == "NOT_FOUND"


async def test_a_portfolio_counts_a_dollar_on_its_peg_as_one(house: House) -> None:
    house.market.prices_usd["USDC"] = Decimal("0.997")
    assert await house.call("get_portfolio") == {
        "mode": "paper",
        "venue": "fake",
        "account": "fake-local",
        "equity_usd": "100000",
        "balances": [{"asset": "USDC", "available": "100000", "held": "0", "value_usd": "100000"}],
        "source": "fake",
        "as_of": "2026-11-30T12:00:00Z",
    }


async def test_a_portfolio_counts_a_dollar_off_its_peg_at_its_price(house: House) -> None:
    house.market.prices_usd["USDC"] = Decimal("0.9")
    assert (await house.call("get_portfolio"))["equity_usd"] == "90000"


async def test_an_asset_without_a_price_is_shown_and_counts_nothing() -> None:
    house = House()
    starting = {"USDC": Decimal(10), "ETH": Decimal(2), "LOST": Decimal(5), "NONE": Decimal(0)}
    venue = FakeVenue(house.market, house.clock, starting)
    entries = builtin_tools(market=house.market, venue=venue, files=house.files, clock=house.clock)
    house.registry = ToolRegistry(entries)
    answer = await house.call("get_portfolio")
    assert answer["equity_usd"] == "5010"
    values = {row["asset"]: row["value_usd"] for row in answer["balances"]}
    assert values == {"ETH": "5000", "LOST": None, "USDC": "10"}


async def test_a_file_is_read_back_as_it_was_written(house: House) -> None:
    written = await house.call("write_file", path="notes/이더.md", content="以太坊 → 2500\n")
    assert written == {"path": "notes/이더.md", "size_bytes": 19}
    assert await house.call("read_file", path="notes/이더.md") == {
        "path": "notes/이더.md",
        "content": "以太坊 → 2500\n",
        "size_bytes": 19,
    }


async def test_files_are_text(house: House) -> None:
    house.files.content["local", "picture"] = b"\x89PNG\xff"
    with pytest.raises(ToolFailed) as failed:
        await house.call("read_file", path="picture")
    assert failed.value.reason == "NOT_TEXT"
    with pytest.raises((ToolFailed, ValidationError)):
        await house.call("write_file", path="a", content="\ud800")


async def test_a_path_that_leads_out_is_refused(house: House) -> None:
    with pytest.raises(SandboxEscapeError):
        await house.call("read_file", path="../other/secret")
