"""Whether trading is on for a person, and why not."""

from pydantic import BaseModel, ConfigDict

from minara_core.taxonomy import PermissionTier
from minara_tools.app.stores import TradingStates
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant


class GetTradingStateArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def get_trading_state(states: TradingStates) -> ToolEntry:
    """The tool `get_trading_state`."""

    async def run(_: GetTradingStateArguments, context: ToolContext) -> object:
        standing = await states.current(context.user_id)
        return {
            "state": standing.state.value,
            "reason": standing.reason,
            "is_installation_wide": standing.is_installation_wide,
            "since": instant(standing.update_time) if standing.update_time else None,
            "change": "minara halt and minara resume, or POST /v1/trading:halt and :resume",
        }

    return ToolEntry(
        name="get_trading_state",
        tool_set="read",
        description=(
            "Whether trading is active, reducing (only exits) or halted (only cancels and closing "
            "by the person), since when and why. Only the person halts and resumes, as `change` "
            "says; you cannot."
        ),
        arguments=GetTradingStateArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )
