"""The price of one asset."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.money import canonical
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant
from minara_tools.toolsets.naming import ticker_named


class GetPriceArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: Annotated[
        str,
        Field(
            min_length=1,
            max_length=60,
            description="Ticker such as BTC, ETH, AAPL or XAU; a common name works too.",
        ),
    ]


def get_price(market: MarketData) -> ToolEntry:
    """The tool `get_price`."""

    async def run(arguments: GetPriceArguments, _: ToolContext) -> object:
        (point,) = await market.prices((ticker_named(arguments.symbol),))
        return {
            "symbol": point.symbol,
            "name": point.name,
            "price": canonical(point.price),
            "currency": "USD",
            "change_24h_percent": canonical(point.change_24h_percent),
            "as_of": instant(point.as_of),
            "source": point.source,
        }

    return ToolEntry(
        name="get_price",
        tool_set="read",
        description=(
            "Current price of one asset in USD and its change over 24 hours in percent. Use it "
            "before you state any price; call it once for each asset. If `source` is "
            '"simulated", say in your answer that the price is simulated.'
        ),
        arguments=GetPriceArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
    )
