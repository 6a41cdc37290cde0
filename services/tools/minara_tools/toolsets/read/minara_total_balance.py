"""What a person owns in all of their accounts, in USD."""

from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from minara_core.clock import Clock
from minara_core.money import Rounding, add, canonical
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant, usd_prices, usd_value


class MinaraTotalBalanceArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def minara_total_balance(venue: Venue, market: MarketData, clock: Clock) -> ToolEntry:
    """The tool `minara_total_balance`."""

    async def run(_: MinaraTotalBalanceArguments, context: ToolContext) -> object:
        rows: list[dict[str, str]] = []
        total, unpriced = Decimal(0), set[str]()
        for account in await venue.accounts(context.user_id):
            owned = {
                one.asset: add(one.available, one.held)
                for one in await venue.balances(account.account)
                if one.available or one.held
            }
            prices = await usd_prices(market, tuple(owned))
            value = Decimal(0)
            for asset, quantity in owned.items():
                if asset in prices:
                    value = add(value, usd_value(quantity, prices[asset], Rounding.DOWN))
                else:
                    unpriced.add(asset)
            total = add(total, value)
            rows.append(
                {
                    "account": account.account,
                    "purpose": account.purpose,
                    "value_usd": canonical(value),
                }
            )
        return {
            "mode": venue.mode.value,
            "venue": venue.name,
            "total_usd": canonical(total),
            "accounts": rows,
            "unpriced_assets": sorted(unpriced),
            "as_of": instant(clock.now()),
        }

    return ToolEntry(
        name="minara_total_balance",
        tool_set="read",
        description=(
            "What the person owns in all of their accounts together, in USD. An asset of "
            "`unpriced_assets` has no price right now and counts nothing. Say the mode: a paper "
            "account holds no real money. For single assets use get_portfolio."
        ),
        arguments=MinaraTotalBalanceArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )
