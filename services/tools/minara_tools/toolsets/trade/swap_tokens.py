"""Swapping one coin for another over the one market that joins them."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from minara_core.actions import Side
from minara_core.lexicon_terms import Direction
from minara_core.money import Rounding, divide, parse_amount, quantize
from minara_core.named_moves import NamedMove
from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.arguments import AmountText
from minara_tools.domain.intent import ticker_of
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.toolsets.figures import usd_prices
from minara_tools.toolsets.refusals import insufficient, refused
from minara_tools.toolsets.trade.listings import market_between
from minara_tools.toolsets.trade.orders import (
    buy_bounds,
    free_balance,
    money_step,
    quotation,
    sell_bounds,
)
from minara_tools.toolsets.trade.sizing import quote_for_money, quote_for_quantity
from minara_tools.toolsets.wording import ONLY_A_PREVIEW, IntentText


class SwapTokensArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    from_symbol: Annotated[
        str, Field(min_length=1, max_length=60, description="The token to give: its ticker.")
    ]
    to_symbol: Annotated[
        str, Field(min_length=1, max_length=60, description="The token to get: its ticker.")
    ]
    amount: Annotated[
        AmountText | None,
        Field(
            description=(
                'How much to give, as plain digits in a string, such as "0.25"; left out when '
                '`amount_unit` is "all".'
            )
        ),
    ] = None
    amount_unit: Annotated[
        Literal["from", "usd", "all"],
        Field(
            description=(
                'What `amount` counts: "from" is a quantity of the token given, "usd" what it is '
                'worth in dollars, "all" is everything free of it.'
            )
        ),
    ]
    intent: IntentText

    @model_validator(mode="after")
    def _amount_unless_all(self) -> Self:
        if (self.amount is None) != (self.amount_unit == "all"):
            raise ValueError('amount is needed, except with amount_unit "all", which takes none')
        return self


def swap_tokens(venue: Venue, market: MarketData) -> ToolEntry:
    """The tool `swap_tokens`."""

    async def quote(arguments: SwapTokensArguments, context: ToolContext) -> Quotation:
        rules, side, given, _ = await market_between(
            venue, arguments.from_symbol, arguments.to_symbol
        )
        account = await venue.account(context.user_id)
        amount = await _given_amount(venue, market, account, given, arguments)
        if side is Side.SELL:
            offer = await quote_for_quantity(venue, rules, side, amount)
            bounds = sell_bounds(rules, offer)
        else:
            offer = await quote_for_money(venue, rules, side, amount)
            bounds = buy_bounds(rules, offer, amount)
        return await quotation(venue, market, account, rules, offer, bounds)

    return ToolEntry(
        name="swap_tokens",
        tool_set="trade",
        description=(
            "Prepare a swap of one token for another at the market price, over one market that "
            "joins both; where none does, the denial says which two steps would do. "
            + ONLY_A_PREVIEW
        ),
        arguments=SwapTokensArguments,
        permission_tier=PermissionTier.CONFIRM_ONCE,
        quote=quote,
        untrusted_output=False,
        names=_named,
        may_exit=True,
    )


def _named(arguments: SwapTokensArguments) -> NamedMove:
    given = ticker_of(arguments.from_symbol)
    units = {"from": given, "usd": "usd", "all": "all"}
    return NamedMove(
        direction=Direction.SWAP,
        asset=given,
        amount=None if arguments.amount is None else parse_amount(arguments.amount),
        amount_unit=units[arguments.amount_unit],
        into=ticker_of(arguments.to_symbol),
    )


async def _given_amount(
    venue: Venue, market: MarketData, account: str, given: str, arguments: SwapTokensArguments
) -> Decimal:
    if arguments.amount is None:
        everything = await free_balance(venue, account, given)
        if everything <= 0:
            raise insufficient(given, available=everything, needed=money_step(given))
        return everything
    amount = parse_amount(arguments.amount)
    if arguments.amount_unit == "from":
        return amount
    price = (await usd_prices(market, (given,))).get(given)
    if price is None:
        raise refused(
            DenialReason.PRICE_UNAVAILABLE,
            f"nobody knows what {given} is worth right now",
            instrument=given,
        )
    return quantize(divide(amount, price), money_step(given), Rounding.DOWN)
