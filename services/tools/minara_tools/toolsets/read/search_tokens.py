"""Finding an asset by a part of its name."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolContext, ToolEntry


class SearchTokensArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    query: Annotated[
        str,
        Field(min_length=1, max_length=100, description="A ticker, a name, or a part of one."),
    ]
    limit: Annotated[int, Field(ge=1, le=25, description="How many results, 1 to 25.")] = 10


def search_tokens(market: MarketData) -> ToolEntry:
    """The tool `search_tokens`."""

    async def run(arguments: SearchTokensArguments, _: ToolContext) -> object:
        found = await market.search(arguments.query, arguments.limit)
        if not found:
            raise ToolFailed("NOT_FOUND", "no asset has a name like this; ask for another spelling")
        return {
            "tokens": [
                {
                    "symbol": listing.symbol,
                    "name": listing.name,
                    "asset_class": listing.asset_class,
                }
                for listing in found
            ],
            "source": found[0].source,
        }

    return ToolEntry(
        name="search_tokens",
        tool_set="read",
        description=(
            "Find assets by ticker or name. Use it when you are not sure which asset the person "
            "means, or when a symbol was ambiguous; never guess a ticker."
        ),
        arguments=SearchTokensArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
    )
