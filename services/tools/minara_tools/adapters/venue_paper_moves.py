"""Why the paper venue refuses a transfer or a withdrawal; pure functions."""

from decimal import Decimal

from minara_core.actions import MarginMode, QuantityUnit, ResolvedOrder, Side
from minara_core.money import Rounding, add, quantize
from minara_core.reasons import DenialReason
from minara_tools.adapters.venue_paper_listings import asset_step
from minara_tools.adapters.venue_paper_networks import paper_networks
from minara_tools.adapters.venue_paper_orders import (
    FEE_EXCEEDS_MAX,
    ORDER_UNSUPPORTED,
    SPEND_EXCEEDS_MAX,
)
from minara_tools.domain.venue_terms import AssetNetwork

RECIPIENT_UNKNOWN = "RECIPIENT_UNKNOWN"
MEMO_REQUIRED = "MEMO_REQUIRED"
_LONGEST_ADDRESS = 128


def transfer_refusal(order: ResolvedOrder, *, is_own_recipient: bool) -> str | None:
    """`is_own_recipient`: another account of the same user."""
    reason = _amount_refusal(order, order.quantity)
    if reason is not None:
        return reason
    if order.memo or order.instrument.chain:
        return ORDER_UNSUPPORTED
    return None if is_own_recipient else RECIPIENT_UNKNOWN


def network_of(order: ResolvedOrder) -> AssetNetwork | None:
    """The chain that a withdrawal names."""
    return paper_networks().get((order.instrument.base, order.instrument.chain))


def withdrawal_refusal(order: ResolvedOrder, *, is_primary: bool) -> str | None:
    network = network_of(order)
    if not order.instrument.chain:
        return DenialReason.CHAIN_UNSPECIFIED
    if network is None:
        return DenialReason.CHAIN_MISMATCH
    if not is_primary:
        return ORDER_UNSUPPORTED
    return (
        _amount_refusal(order, add(order.quantity, network.fee))
        or _network_refusal(order, network)
        or _address_refusal(order, network)
    )


def _amount_refusal(order: ResolvedOrder, spent: Decimal) -> str | None:
    asset = order.instrument.base
    is_plain = (
        order.instrument.symbol == asset
        and not order.instrument.quote
        and order.side is Side.SELL
        and order.quantity_unit is QuantityUnit.BASE
        and order.margin_mode is MarginMode.NONE
        and order.leverage == 1
        and not order.cancels
        and {order.max_spend_asset, order.min_receipt_asset, order.max_fee_asset} == {asset}
    )
    if not is_plain:
        return ORDER_UNSUPPORTED
    if order.quantity <= 0:
        return DenialReason.QUANTITY_ROUNDS_TO_ZERO
    if quantize(order.quantity, asset_step(asset), Rounding.DOWN) != order.quantity:
        return ORDER_UNSUPPORTED
    return SPEND_EXCEEDS_MAX if spent > order.max_spend else None


def _network_refusal(order: ResolvedOrder, network: AssetNetwork) -> str | None:
    if order.quantity < network.min_amount:
        return DenialReason.QUANTITY_BELOW_MIN
    return FEE_EXCEEDS_MAX if network.fee > order.max_fee else None


def _address_refusal(order: ResolvedOrder, network: AssetNetwork) -> str | None:
    address = order.recipient
    if not 0 < len(address) <= _LONGEST_ADDRESS or not address.isascii() or " " in address:
        return DenialReason.ADDRESS_INVALID
    if network.needs_memo and not order.memo:
        return MEMO_REQUIRED
    return None
