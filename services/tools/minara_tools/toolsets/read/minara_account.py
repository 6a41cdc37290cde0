"""Which accounts a person has, where, and by which chains assets leave."""

from pydantic import BaseModel, ConfigDict

from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import Venue
from minara_tools.domain.registry import ToolContext, ToolEntry


class MinaraAccountArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def minara_account(venue: Venue) -> ToolEntry:
    """The tool `minara_account`."""

    async def run(_: MinaraAccountArguments, context: ToolContext) -> object:
        chains: dict[str, list[str]] = {}
        for network in await venue.networks():
            chains.setdefault(network.asset, []).append(network.chain)
        return {
            "mode": venue.mode.value,
            "venue": venue.name,
            "accounts": [
                {"account": one.account, "purpose": one.purpose, "is_primary": one.is_primary}
                for one in await venue.accounts(context.user_id)
            ],
            "withdrawal_chains": {asset: sorted(names) for asset, names in sorted(chains.items())},
        }

    return ToolEntry(
        name="minara_account",
        tool_set="read",
        description=(
            "The person's accounts at the trading venue, whether it is paper, testnet or live, and "
            "the chains by which each asset can be withdrawn. Use it before a transfer between "
            "accounts, or when they ask where their account is."
        ),
        arguments=MinaraAccountArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )
