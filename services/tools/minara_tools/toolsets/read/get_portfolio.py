"""What the person holds at the venue."""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from minara_core.clock import Clock
from minara_core.money import Rounding, add, canonical
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.domain.venue_terms import Balance
from minara_tools.toolsets.figures import instant, usd_prices, usd_value


class GetPortfolioArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def get_portfolio(venue: Venue, market: MarketData, clock: Clock) -> ToolEntry:
    """The tool `get_portfolio`."""

    async def run(_: GetPortfolioArguments, context: ToolContext) -> object:
        account = await venue.account(context.user_id)
        balances = tuple(b for b in await venue.balances(account) if _total(b) != 0)
        as_of = clock.now()
        prices = await usd_prices(market, tuple(balance.asset for balance in balances))
        values = {b.asset: _value(b, prices) for b in balances}
        equity = Decimal(0)
        for value in values.values():
            equity = add(equity, value or Decimal(0))
        return {
            "mode": venue.mode.value,
            "venue": venue.name,
            "account": account,
            "equity_usd": canonical(equity),
            "balances": [_row(balance, values[balance.asset]) for balance in balances],
            "source": venue.name,
            "as_of": instant(as_of),
        }

    return ToolEntry(
        name="get_portfolio",
        tool_set="read",
        description=(
            "The person's balances at the trading venue: what is available, what open orders hold, "
            "and the value in USD. `equity_usd` is the sum of all values; an asset whose "
            "`value_usd` is null has no price right now and counts nothing. Use it before you "
            "speak about what they own, and say the mode: a paper account holds no real money."
        ),
        arguments=GetPortfolioArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )


def _total(balance: Balance) -> Decimal:
    return add(balance.available, balance.held)


def _value(balance: Balance, prices: Mapping[str, Decimal]) -> Decimal | None:
    price = prices.get(balance.asset)
    return None if price is None else usd_value(_total(balance), price, Rounding.DOWN)


def _row(balance: Balance, value: Decimal | None) -> dict[str, str | None]:
    return {
        "asset": balance.asset,
        "available": canonical(balance.available),
        "held": canonical(balance.held),
        "value_usd": None if value is None else canonical(value),
    }
