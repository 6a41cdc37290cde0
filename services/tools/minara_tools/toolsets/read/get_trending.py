"""Which tokens move most."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.money import canonical
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant


class GetTrendingArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=25, description="How many tokens, 1 to 25.")] = 10


def get_trending(market: MarketData) -> ToolEntry:
    """The tool `get_trending`."""

    async def run(arguments: GetTrendingArguments, _: ToolContext) -> object:
        points = await market.trending(arguments.limit)
        if not points:
            raise ToolFailed("NOT_FOUND", "nothing is trending right now")
        return {
            "tokens": [
                {
                    "symbol": point.symbol,
                    "name": point.name,
                    "price": canonical(point.price),
                    "change_24h_percent": canonical(point.change_24h_percent),
                }
                for point in points
            ],
            "source": points[0].source,
            "as_of": instant(min(point.as_of for point in points)),
        }

    return ToolEntry(
        name="get_trending",
        tool_set="read",
        description=(
            "Tokens with the most attention right now, first the strongest, with price in USD and "
            "change over 24 hours in percent. Use it when the person asks what is hot, trending "
            "or moving; trending is no advice to buy."
        ),
        arguments=GetTrendingArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
    )
