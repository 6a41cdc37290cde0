"""Buying a token at the market."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from minara_core.actions import Side
from minara_core.lexicon_terms import Direction
from minara_core.money import parse_amount
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.arguments import AmountText
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.toolsets.trade.listings import listing_named
from minara_tools.toolsets.trade.orders import buy_bounds, quotation
from minara_tools.toolsets.trade.sizing import quote_for_money, quote_for_quantity
from minara_tools.toolsets.wording import ONLY_A_PREVIEW, IntentText


class BuyTokenArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: Annotated[
        str,
        Field(
            min_length=1, max_length=60, description="The token to buy: its ticker, such as ETH."
        ),
    ]
    amount: Annotated[
        AmountText,
        Field(description='How much, as plain digits in a string, such as "50" or "0.25".'),
    ]
    amount_unit: Annotated[
        Literal["quote", "base"],
        Field(
            description=(
                'What `amount` counts: "quote" is money to spend, fee included ("buy $50 of ETH" '
                'is 50 quote); "base" is the quantity of the token ("buy 0.02 ETH" is 0.02 base).'
            )
        ),
    ]
    intent: IntentText


def buy_token(venue: Venue, market: MarketData) -> ToolEntry:
    """The tool `buy_token`."""

    async def quote(arguments: BuyTokenArguments, context: ToolContext) -> Quotation:
        rules = await listing_named(venue, arguments.symbol)
        account = await venue.account(context.user_id)
        amount = parse_amount(arguments.amount)
        if arguments.amount_unit == "quote":
            offer = await quote_for_money(venue, rules, Side.BUY, amount)
            bounds = buy_bounds(rules, offer, amount)
        else:
            offer = await quote_for_quantity(venue, rules, Side.BUY, amount)
            bounds = buy_bounds(rules, offer, None)
        return await quotation(venue, market, account, rules, offer, bounds)

    return ToolEntry(
        name="buy_token",
        tool_set="trade",
        description=("Prepare a purchase of a token at the market price. " + ONLY_A_PREVIEW),
        arguments=BuyTokenArguments,
        permission_tier=PermissionTier.CONFIRM_ONCE,
        quote=quote,
        untrusted_output=False,
        direction=Direction.BUY,
    )
