"""What was traded, as the books have it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.money import canonical
from minara_core.taxonomy import PermissionTier
from minara_tools.app.fund_reads import FundReads
from minara_tools.domain.postings import LedgerAccount, Posting, PostingKind
from minara_tools.domain.registry import ToolContext, ToolEntry
from minara_tools.toolsets.figures import instant


class GetFillsArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1, le=100, description="How many, newest first.")] = 20


def get_fills(reads: FundReads) -> ToolEntry:
    """The tool `get_fills`."""

    async def run(arguments: GetFillsArguments, context: ToolContext) -> object:
        booked = (await reads.fills(context.user_id, arguments.limit)).postings
        fees = {
            (one.trade_id, one.order_id): _charged(one)
            for one in booked
            if one.kind is PostingKind.FEE
        }
        fills = [one for one in reversed(booked) if one.kind is PostingKind.FILL]
        return {
            "fills": [
                {
                    "order_id": one.client_order_id,
                    "instrument": one.instrument,
                    "side": _side(one),
                    "quantity": canonical(one.quantity),
                    "price": canonical(one.price),
                    "fee": fees.get((one.trade_id, one.order_id), {}),
                    "venue": one.venue,
                    "account": one.account,
                    "time": instant(one.time),
                }
                for one in fills[: arguments.limit]
            ]
        }

    return ToolEntry(
        name="get_fills",
        tool_set="read",
        description=(
            "The person's own trades as they were filled, newest first, from our books: quantity "
            "of the base asset, price in the quote asset, and the fee by asset."
        ),
        arguments=GetFillsArguments,
        permission_tier=PermissionTier.READ_ONLY,
        handler=run,
        untrusted_output=False,
    )


def _charged(posting: Posting) -> dict[str, str]:
    return {
        one.asset: canonical(one.amount)
        for one in posting.entries
        if one.ledger_account is LedgerAccount.FEES
    }


def _side(posting: Posting) -> str:
    base = posting.instrument.partition("/")[0]
    is_given = any(
        one.asset == base and one.ledger_account is LedgerAccount.REALISED and one.amount > 0
        for one in posting.entries
    )
    return "sell" if is_given else "buy"
