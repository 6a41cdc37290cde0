"""Moving an asset between a person's own accounts at the venue."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from minara_core.clock import Clock
from minara_core.lexicon_terms import Direction
from minara_core.money import Rounding, parse_amount, quantize
from minara_core.named_moves import NamedMove
from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.arguments import AmountText
from minara_tools.domain.intent import ticker_of
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.domain.venue_terms import VenueAccount
from minara_tools.toolsets.refusals import insufficient, refused
from minara_tools.toolsets.trade.orders import free_balance, money_step
from minara_tools.toolsets.transfer.moves import asset_named, quoted, transfer_of
from minara_tools.toolsets.wording import ONLY_A_PREVIEW, IntentText

_AccountText = Annotated[str, Field(min_length=1, max_length=80)]


class TransferTokenArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: Annotated[
        str, Field(min_length=1, max_length=60, description="The asset: its ticker, such as USDC.")
    ]
    amount: Annotated[
        AmountText | None,
        Field(
            description=(
                "How much of the asset, as plain digits in a string; left out when `amount_unit` "
                'is "all".'
            )
        ),
    ] = None
    amount_unit: Annotated[
        Literal["base", "all"],
        Field(description='"base" is a quantity of the asset, "all" is everything free of it.'),
    ]
    from_account: Annotated[
        _AccountText,
        Field(description='"spot", "perps", or an account that minara_account lists.'),
    ]
    to_account: Annotated[
        _AccountText,
        Field(description="Another one of the person's own accounts, named in the same way."),
    ]
    intent: IntentText

    @model_validator(mode="after")
    def _amount_unless_all(self) -> Self:
        if (self.amount is None) != (self.amount_unit == "all"):
            raise ValueError('amount is needed, except with amount_unit "all", which takes none')
        return self


def transfer_token(venue: Venue, market: MarketData, clock: Clock) -> ToolEntry:
    """The tool `transfer_token`."""

    async def quote(arguments: TransferTokenArguments, context: ToolContext) -> Quotation:
        own = await venue.accounts(context.user_id)
        account = _account_named(own, arguments.from_account)
        recipient = _account_named(own, arguments.to_account)
        asset = asset_named(arguments.symbol)
        order = transfer_of(
            venue,
            account=account,
            asset=asset,
            quantity=await _quantity(venue, account, asset, arguments.amount),
            recipient=recipient,
        )
        return await quoted(market, clock, order)

    return ToolEntry(
        name="transfer_token",
        tool_set="transfer",
        description=(
            "Prepare a transfer of an asset between the person's own accounts at the venue, never "
            "to anybody else. " + ONLY_A_PREVIEW
        ),
        arguments=TransferTokenArguments,
        permission_tier=PermissionTier.ALWAYS_CONFIRM,
        quote=quote,
        untrusted_output=False,
        names=_named,
    )


def _named(arguments: TransferTokenArguments) -> NamedMove:
    return NamedMove(
        direction=Direction.TRANSFER,
        asset=ticker_of(arguments.symbol),
        amount=None if arguments.amount is None else parse_amount(arguments.amount),
        amount_unit=arguments.amount_unit,
    )


def _account_named(own: tuple[VenueAccount, ...], text: str) -> str:
    """Raises ToolCallBlockedError (ADDRESS_INVALID) for what is no account of the person's."""
    named = text.strip().casefold()
    for one in own:
        if named in {one.account.casefold(), one.purpose.casefold()}:
            return one.account
    raise refused(
        DenialReason.ADDRESS_INVALID,
        "a transfer goes between accounts of your own at this venue",
        address=text[:100],
        expected=", ".join(one.account for one in own),
    )


async def _quantity(venue: Venue, account: str, asset: str, amount: str | None) -> Decimal:
    """In whole steps of the asset, as far as the venue tells them."""
    steps = [one.amount_increment for one in await venue.networks() if one.asset == asset]
    step = max(steps, default=money_step(asset))
    if amount is not None:
        return quantize(parse_amount(amount), step, Rounding.DOWN)
    free = quantize(await free_balance(venue, account, asset), step, Rounding.DOWN)
    if free <= 0:
        raise insufficient(asset, available=free, needed=step)
    return free
