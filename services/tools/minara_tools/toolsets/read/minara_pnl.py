"""Profit and loss of the person's own trades."""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from minara_core.clock import Clock
from minara_core.money import Rounding, add, canonical, multiply, quantize, subtract
from minara_core.taxonomy import PermissionTier
from minara_tools.app.fund_reads import FundReads
from minara_tools.app.ports import MarketData
from minara_tools.domain.profit import Holding, profit
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant, usd_prices

_CENT = Decimal("0.01")
_UNIT = Decimal("0.00000001")
_BASIS = (
    "Average cost in USD, stablecoins counted as one dollar, before fees, which stand apart. "
    "Deposits and opening balances of coins have no cost and make neither profit nor loss; a swap "
    "of coins carries its cost over. No tax figure."
)


class MinaraPnlArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def minara_pnl(reads: FundReads, market: MarketData, clock: Clock) -> ToolEntry:
    """The tool `minara_pnl`."""

    async def run(_: MinaraPnlArguments, context: ToolContext) -> object:
        booked = await reads.facts(context.user_id)
        found = profit(booked.postings)
        traded = {
            asset: one
            for asset, one in sorted(found.holdings.items())
            if one.costed > 0 or one.realised != 0
        }
        prices = await usd_prices(market, tuple(traded))
        realised, unrealised = _sums(traded, prices)
        return {
            "realised_usd": _cents(realised),
            "unrealised_usd": _cents(unrealised),
            "assets": [_row(asset, one, prices.get(asset)) for asset, one in traded.items()],
            "fees": {
                asset: canonical(fee) for asset, fee in sorted(found.fees.items()) if fee != 0
            },
            "basis": _BASIS,
            "is_complete": booked.is_complete,
            "as_of": instant(clock.now()),
        }

    return ToolEntry(
        name="minara_pnl",
        tool_set="read",
        description=(
            "Realised and unrealised profit and loss of the person's own trades by asset, from our "
            "books, with the fees apart. `basis` says how it is counted: tell it with the numbers. "
            "An asset whose `unrealised_usd` is null has no price right now."
        ),
        arguments=MinaraPnlArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )


def _sums(traded: Mapping[str, Holding], prices: Mapping[str, Decimal]) -> tuple[Decimal, Decimal]:
    realised = unrealised = Decimal(0)
    for asset, one in traded.items():
        realised = add(realised, one.realised)
        unrealised = add(unrealised, _unrealised(one, prices.get(asset)) or Decimal(0))
    return realised, unrealised


def _unrealised(holding: Holding, price: Decimal | None) -> Decimal | None:
    return None if price is None else subtract(multiply(holding.costed, price), holding.cost)


def _row(asset: str, holding: Holding, price: Decimal | None) -> dict[str, str | None]:
    gain = _unrealised(holding, price)
    return {
        "asset": asset,
        "quantity_with_cost": canonical(quantize(holding.costed, _UNIT, Rounding.DOWN)),
        "cost_usd": _cents(holding.cost),
        "price_usd": None if price is None else canonical(price),
        "realised_usd": _cents(holding.realised),
        "unrealised_usd": None if gain is None else _cents(gain),
    }


def _cents(amount: Decimal) -> str:
    return canonical(quantize(amount, _CENT, Rounding.DOWN))
