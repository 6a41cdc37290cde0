"""Selling a token at the market."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from minara_core.actions import Side
from minara_core.lexicon_terms import Direction
from minara_core.money import Rounding, divide, parse_amount, quantize
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.arguments import AmountText
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.domain.venue_terms import InstrumentRules, VenueQuote
from minara_tools.toolsets.refusals import insufficient
from minara_tools.toolsets.trade.listings import listing_named
from minara_tools.toolsets.trade.orders import free_balance, quotation, sell_bounds
from minara_tools.toolsets.trade.sizing import quote_for_money, quote_for_quantity
from minara_tools.toolsets.wording import ONLY_A_PREVIEW, IntentText


class SellTokenArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: Annotated[
        str,
        Field(
            min_length=1, max_length=60, description="The token to sell: its ticker, such as ETH."
        ),
    ]
    amount: Annotated[
        AmountText | None,
        Field(
            description=(
                'How much, as plain digits in a string, such as "50" or "0.25"; left out when '
                '`amount_unit` is "all".'
            )
        ),
    ] = None
    amount_unit: Annotated[
        Literal["quote", "base", "all"],
        Field(
            description=(
                'What `amount` counts: "base" is the quantity of the token, "quote" is what it is '
                'worth before the fee ("sell $50 of ETH" is 50 quote), "all" is everything free.'
            )
        ),
    ]
    bound_percent: Annotated[
        Literal["1", "3", "10"],
        Field(
            description=(
                "How far the price may fall below the preview's, in percent. Wider than 1 only "
                "when the person asks for it."
            )
        ),
    ] = "1"
    intent: IntentText

    @model_validator(mode="after")
    def _amount_unless_all(self) -> Self:
        if (self.amount is None) != (self.amount_unit == "all"):
            raise ValueError('amount is needed, except with amount_unit "all", which takes none')
        return self


def sell_token(venue: Venue, market: MarketData) -> ToolEntry:
    """The tool `sell_token`."""

    async def quote(arguments: SellTokenArguments, context: ToolContext) -> Quotation:
        rules = await listing_named(venue, arguments.symbol)
        account = await venue.account(context.user_id)
        wanted = await _wanted(venue, account, rules, arguments)
        offer = await _offer(venue, rules, arguments, wanted)
        bound = divide(Decimal(arguments.bound_percent), Decimal(100))
        return await quotation(
            venue,
            market,
            account,
            rules,
            offer,
            sell_bounds(rules, offer, bound),
            bound=bound,
            is_part=offer.quantity < quantize(wanted, rules.quantity_increment, Rounding.DOWN),
        )

    return ToolEntry(
        name="sell_token",
        tool_set="trade",
        description=(
            "Prepare a sale of a token the person holds at the market price. " + ONLY_A_PREVIEW
        ),
        arguments=SellTokenArguments,
        permission_tier=PermissionTier.CONFIRM_ONCE,
        quote=quote,
        untrusted_output=False,
        direction=Direction.SELL,
        may_exit=True,
    )


async def _wanted(
    venue: Venue, account: str, rules: InstrumentRules, arguments: SellTokenArguments
) -> Decimal:
    """The quantity that was asked for; zero when it is a sum of money."""
    if arguments.amount is None:
        everything = await free_balance(venue, account, rules.base)
        if everything <= 0:
            raise insufficient(rules.base, available=everything, needed=rules.min_quantity)
        return everything
    is_money = arguments.amount_unit == "quote"
    return Decimal(0) if is_money else parse_amount(arguments.amount)


async def _offer(
    venue: Venue, rules: InstrumentRules, arguments: SellTokenArguments, wanted: Decimal
) -> VenueQuote:
    if arguments.amount is not None and arguments.amount_unit == "quote":
        return await quote_for_money(venue, rules, Side.SELL, parse_amount(arguments.amount))
    return await quote_for_quantity(venue, rules, Side.SELL, wanted)
