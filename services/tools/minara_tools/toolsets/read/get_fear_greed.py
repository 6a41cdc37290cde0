"""The mood of the crypto market as one number."""

from pydantic import BaseModel, ConfigDict

from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant


class GetFearGreedArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def get_fear_greed(market: MarketData) -> ToolEntry:
    """The tool `get_fear_greed`."""

    async def run(_: GetFearGreedArguments, __: ToolContext) -> object:
        mood = await market.fear_greed()
        return {
            "value": str(mood.value),
            "classification": mood.classification,
            "as_of": instant(mood.as_of),
            "source": mood.source,
        }

    return ToolEntry(
        name="get_fear_greed",
        tool_set="read",
        description=(
            "The crypto fear and greed index: 0 is extreme fear, 100 extreme greed. Use it when "
            "the person asks about the mood or sentiment of the market."
        ),
        arguments=GetFearGreedArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
    )
