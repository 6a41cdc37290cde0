"""Stage "token safety": exactly one instrument of the venue's own, and a recipient that is meant.

On an exchange venue the venue's listing is the verified list (safety.md §3). Exits are warned where
others are denied.
"""

from minara_core.actions import MoveKind, Side
from minara_core.reasons import DenialReason
from minara_tools.domain.address_formats import formats_of, is_address
from minara_tools.domain.addresses import is_usable, known_addresses
from minara_tools.domain.assets import asset_class, is_off_peg
from minara_tools.domain.exits import is_exit
from minara_tools.domain.funds import StageInput
from minara_tools.domain.lookalikes import known_entry, lookalike_of
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.stage_listing import network_of
from minara_tools.domain.venue_terms import AssetNetwork
from minara_tools.domain.warning_codes import WarningCode

GATE = "token_safety"

_SHOWN = 100


def token_safety(given: StageInput) -> tuple[str, ...]:
    """Denies TOKEN_UNVERIFIED, ADDRESS_INVALID, ADDRESS_LOOKALIKE, ADDRESS_NOT_USABLE,
    CHAIN_UNSPECIFIED, CHAIN_MISMATCH and MEMO_MISSING."""
    match given.order.kind:
        case MoveKind.TRADE:
            return _traded(given) + _off_peg(given)
        case MoveKind.TRANSFER:
            _check_own_account(given)
            return ()
        case MoveKind.WITHDRAWAL:
            return _recipient(given)
        case MoveKind.CANCEL:
            return ()


def _traded(given: StageInput) -> tuple[str, ...]:
    instrument, funds = given.order.instrument, given.funds
    rules = funds.listings.get(instrument.symbol)
    is_listed = (
        rules is not None
        and (rules.base, rules.quote) == (instrument.base, instrument.quote)
        and not instrument.address
    )
    taken = instrument.base if given.order.side is Side.BUY else instrument.quote
    known = funds.assets.get(taken)
    if is_listed and (known is None or known.is_listed):
        kind = asset_class(taken) if known is None else known.asset_class
        is_told = kind is None and not is_exit(given.order)
        return (WarningCode.TOKEN_UNCLASSIFIED.about(taken),) if is_told else ()
    if is_exit(given.order):
        return (WarningCode.TOKEN_UNVERIFIED.about(taken),)
    raise ToolCallBlockedError(
        DenialReason.TOKEN_UNVERIFIED,
        gate=GATE,
        message=f"{given.order.venue} does not list this {taken}, and nothing else vouches for it",
        metadata={"token": taken, "instrument": instrument.symbol},
    )


def _off_peg(given: StageInput) -> tuple[str, ...]:
    instrument = given.order.instrument
    warnings: list[str] = []
    for asset in (instrument.base, instrument.quote):
        known = given.funds.assets.get(asset)
        price = None if known is None else known.usd_price
        if price is not None and is_off_peg(asset, price):
            warnings.append(WarningCode.STABLECOIN_OFF_PEG.about(asset))
    return tuple(warnings)


def _check_own_account(given: StageInput) -> None:
    order = given.order
    own = {one.account for one in given.funds.own_accounts} - {order.account}
    if order.recipient not in own:
        raise ToolCallBlockedError(
            DenialReason.ADDRESS_INVALID,
            gate=GATE,
            message="a transfer goes to another account of your own at this venue",
            metadata={"address": order.recipient[:_SHOWN], "expected": ", ".join(sorted(own))},
        )


def _recipient(given: StageInput) -> tuple[str, ...]:
    network = _network(given)
    order, funds = given.order, given.funds
    _check_format(order.recipient, network)
    if network.needs_memo and not order.memo:
        raise ToolCallBlockedError(
            DenialReason.MEMO_MISSING,
            gate=GATE,
            message=f"{network.chain} needs a memo or tag, without which the money is lost",
            metadata={"chain": network.chain},
        )
    if order.memo and not (network.needs_memo and order.memo.isprintable()):
        raise ToolCallBlockedError(
            DenialReason.ADDRESS_INVALID,
            gate=GATE,
            message=f"{network.chain} takes no such memo",
            metadata={"address": order.recipient, "expected": "no memo"},
        )
    entry = known_entry(funds.addresses, network.chain, order.recipient, order.memo)
    if entry is not None:
        if not is_usable(entry, funds.time):
            raise ToolCallBlockedError(
                DenialReason.ADDRESS_NOT_USABLE,
                gate=GATE,
                message="an address is usable 24 hours after it was entered",
                metadata={"address": order.recipient, "until": entry.usable_time.isoformat()},
            )
        return () if entry.used else (WarningCode.RECIPIENT_NEW,)
    alike = lookalike_of(order.recipient, known_addresses(funds.addresses))
    if alike is not None:
        raise ToolCallBlockedError(
            DenialReason.ADDRESS_LOOKALIKE,
            gate=GATE,
            message="this address only looks like one you know; compare every character",
            metadata={"address": order.recipient, "known": alike},
        )
    return (WarningCode.RECIPIENT_NEW,)


def _network(given: StageInput) -> AssetNetwork:
    instrument = given.order.instrument
    chains = sorted(one.chain for one in given.funds.networks if one.asset == instrument.base)
    if not instrument.chain:
        raise ToolCallBlockedError(
            DenialReason.CHAIN_UNSPECIFIED,
            gate=GATE,
            message=f"say by which chain: {', '.join(chains) or 'none is offered'}",
            metadata={"asset": instrument.base, "chains": ", ".join(chains)},
        )
    network = network_of(given)
    if network is None:
        raise _chain_mismatch(
            f"{instrument.base} does not leave this venue by {instrument.chain[:_SHOWN]}",
            chain=instrument.chain[:_SHOWN],
            chains=chains,
        )
    return network


def _check_format(recipient: str, network: AssetNetwork) -> None:
    if is_address(network.address_format, recipient):
        return
    others = formats_of(recipient)
    if others:
        raise _chain_mismatch(
            f"this is an address of another chain ({', '.join(others)}), not of {network.chain}",
            chain=network.chain,
            chains=others,
        )
    raise ToolCallBlockedError(
        DenialReason.ADDRESS_INVALID,
        gate=GATE,
        message=f"this is no address of {network.chain}; a character may be wrong",
        metadata={"address": recipient[:_SHOWN], "expected": network.address_format},
    )


def _chain_mismatch(
    message: str, *, chain: str, chains: tuple[str, ...] | list[str]
) -> ToolCallBlockedError:
    return ToolCallBlockedError(
        DenialReason.CHAIN_MISMATCH,
        gate=GATE,
        message=message,
        metadata={"chain": chain, "chains": ", ".join(chains)},
    )
