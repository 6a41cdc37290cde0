"""What the person allows themselves to move."""

from pydantic import BaseModel, ConfigDict

from minara_core.money import canonical
from minara_core.taxonomy import PermissionTier
from minara_tools.app.limit_store import LimitStore
from minara_tools.domain.limits import CHANGE_ROUTE, values_of
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant


class GetLimitsArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def get_limits(limits: LimitStore) -> ToolEntry:
    """The tool `get_limits`."""

    async def run(_: GetLimitsArguments, context: ToolContext) -> object:
        record = await limits.find(context.user_id)
        return {
            "limits": {name: canonical(v) for name, v in values_of(record.limits).items()},
            "pending_raises": [
                {
                    "limit": one.limit,
                    "value": canonical(one.value),
                    "effective_time": instant(one.effective_time),
                }
                for one in record.raises
            ],
            "is_chosen": record.is_chosen,
            "change": f"minara limits set NAME=VALUE, or {CHANGE_ROUTE}",
        }

    return ToolEntry(
        name="get_limits",
        tool_set="read",
        description=(
            "The person's own limits: the most per move, per 24 hours and for a new recipient in "
            "USD, moves per 24 hours, leverage, and raises that take effect later. Use it when "
            "they ask about limits or when one denied a move. Only they can change one, as "
            "`change` says; you cannot."
        ),
        arguments=GetLimitsArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )
