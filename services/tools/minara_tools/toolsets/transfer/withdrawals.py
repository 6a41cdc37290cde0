"""What only a person does by hand: sending an asset away from the venue."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minara_core.clock import Clock
from minara_core.errors import NotFound
from minara_core.ids import UserId
from minara_core.money import parse_amount
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import PermissionTier
from minara_tools.app.limit_store import AddressBook
from minara_tools.app.ports import MarketData, Venue
from minara_tools.domain.addresses import AddressEntry
from minara_tools.domain.arguments import AmountText
from minara_tools.domain.registry import Quotation, ToolContext, ToolEntry
from minara_tools.toolsets.transfer.moves import (
    LAST_CHARACTERS,
    asset_named,
    check_last_characters,
    quoted,
    withdrawal_of,
)

_BY_HAND = (
    "Only the person does this, by hand, with the card that a call of it is denied with: you "
    "cannot call it, and you never write a recipient or an amount into the card. Tell them that "
    "`minara withdraw` or the card opens the form."
)

_Symbol = Annotated[str, Field(min_length=1, max_length=60, description="Its ticker.")]
_Amount = Annotated[AmountText, Field(description="How much arrives, as plain digits.")]
_LastSix = Annotated[
    str,
    Field(
        min_length=LAST_CHARACTERS,
        max_length=LAST_CHARACTERS,
        description="The recipient's last six characters, typed by the person.",
    ),
]


class WithdrawTokenArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: _Symbol
    amount: _Amount
    address: Annotated[
        str,
        Field(min_length=1, max_length=64, description="An address-book entry: its id or name."),
    ]
    last_six: _LastSix


class SendExternalArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    symbol: _Symbol
    amount: _Amount
    chain: Annotated[str, Field(max_length=40, description="By which chain.")] = ""
    address: Annotated[str, Field(min_length=1, max_length=120, description="In full.")]
    memo: Annotated[str, Field(max_length=100, description="Memo or tag, if any.")] = ""
    last_six: _LastSix


def withdraw_token(
    venue: Venue, market: MarketData, addresses: AddressBook, clock: Clock
) -> ToolEntry:
    """The tool `withdraw_token`."""

    async def quote(arguments: WithdrawTokenArguments, context: ToolContext) -> Quotation:
        entry = await _entry_named(addresses, context.user_id, arguments.address)
        check_last_characters(entry.address, arguments.last_six)
        order = await withdrawal_of(
            venue,
            account=await venue.account(context.user_id),
            asset=asset_named(arguments.symbol),
            quantity=parse_amount(arguments.amount),
            chain=entry.chain,
            recipient=entry.address,
            memo=entry.memo,
        )
        return await quoted(market, clock, order)

    return ToolEntry(
        name="withdraw_token",
        tool_set="transfer",
        description=f"Withdraw an asset to a recipient of the address book. {_BY_HAND}",
        arguments=WithdrawTokenArguments,
        permission_tier=PermissionTier.MANUAL_ONLY,
        quote=quote,
        untrusted_output=False,
    )


def send_external(venue: Venue, market: MarketData, clock: Clock) -> ToolEntry:
    """The tool `send_external`."""

    async def quote(arguments: SendExternalArguments, context: ToolContext) -> Quotation:
        recipient = arguments.address.strip()
        check_last_characters(recipient, arguments.last_six)
        order = await withdrawal_of(
            venue,
            account=await venue.account(context.user_id),
            asset=asset_named(arguments.symbol),
            quantity=parse_amount(arguments.amount),
            chain=arguments.chain.strip().lower(),
            recipient=recipient,
            memo=arguments.memo.strip(),
        )
        return await quoted(market, clock, order)

    return ToolEntry(
        name="send_external",
        tool_set="transfer",
        description=f"Send an asset to an address outside. {_BY_HAND}",
        arguments=SendExternalArguments,
        permission_tier=PermissionTier.MANUAL_ONLY,
        quote=quote,
        untrusted_output=False,
    )


async def _entry_named(addresses: AddressBook, user_id: UserId, text: str) -> AddressEntry:
    """By id, or by a name that only one entry has. Raises NotFound (ADDRESS_NOT_FOUND)."""
    book = await addresses.page(user_id)
    found = [one for one in book if one.address_id == text]
    found = found or [one for one in book if one.name.casefold() == text.strip().casefold()]
    if len(found) != 1:
        raise NotFound(
            "this is not exactly one entry of your address book; take its id",
            reason=ErrorReason.ADDRESS_NOT_FOUND,
        )
    return found[0]
