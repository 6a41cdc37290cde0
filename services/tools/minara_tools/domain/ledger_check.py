"""The invariants of the books (safety.md §4); what breaks one is named, and nothing is repaired."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from minara_core.actions import ActionState
from minara_core.money import add, canonical
from minara_tools.domain.operations import Operation, OperationState
from minara_tools.domain.postings import LedgerAccount, Posting, PostingKind, totals

_ZERO = Decimal(0)
_MOVED = frozenset({PostingKind.FILL, PostingKind.TRANSFER_OUT, PostingKind.WITHDRAWAL})

ACTION_OF: Mapping[OperationState, frozenset[ActionState]] = MappingProxyType(
    {
        OperationState.INTENT: frozenset({ActionState.EXECUTING}),
        OperationState.HELD: frozenset({ActionState.EXECUTING}),
        OperationState.SENT: frozenset({ActionState.EXECUTING, ActionState.UNCERTAIN}),
        OperationState.OPEN: frozenset(
            {ActionState.DONE, ActionState.UNCERTAIN, ActionState.EXECUTING}
        ),
        OperationState.UNCERTAIN: frozenset({ActionState.UNCERTAIN, ActionState.EXECUTING}),
        OperationState.CLOSED: frozenset({ActionState.DONE, ActionState.FAILED}),
        OperationState.VOIDED: frozenset({ActionState.VOIDED}),
    }
)
"""What an action may be while its operation is in a state."""

BookKey = tuple[str, str, LedgerAccount, str]
"""Venue, venue account, ledger account, asset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Everything there is. `audited` are the actions with a row of their own in the audit chain."""

    postings: Sequence[Posting]
    balances: Mapping[BookKey, Decimal]
    operations: Sequence[Operation]
    actions: Mapping[str, ActionState]
    audited: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFault:
    """A broken invariant; `subject` is the posting, operation or balance that shows it."""

    invariant: str
    subject: str
    detail: str


def check(books: Books) -> tuple[LedgerFault, ...]:
    """Every fault, in the order of the invariants; none for sound books."""
    return (
        *_unbalanced(books.postings),
        *_wrong_balances(books),
        *_sums_not_zero(books.balances),
        *_wrong_holds(books),
        *_wrong_fills(books),
        *_strangers(books),
        *_wrong_actions(books),
    )


def _unbalanced(postings: Iterable[Posting]) -> Iterable[LedgerFault]:
    for posting in postings:
        for asset, total in totals(posting.entries).items():
            if total:
                yield LedgerFault(
                    invariant="a posting sums to zero for each asset",
                    subject=_name(posting),
                    detail=f"{canonical(total)} {asset}",
                )


def _wrong_balances(books: Books) -> Iterable[LedgerFault]:
    summed: dict[BookKey, Decimal] = {}
    for posting in books.postings:
        for entry in posting.entries:
            key = (posting.venue, entry.account, entry.ledger_account, entry.asset)
            summed[key] = add(summed.get(key, _ZERO), entry.amount)
    for key in sorted(set(summed) | set(books.balances)):
        kept, made = books.balances.get(key, _ZERO), summed.get(key, _ZERO)
        if kept != made:
            yield LedgerFault(
                invariant="a balance is the sum of its entries",
                subject=" ".join(key),
                detail=f"{canonical(kept)} kept, {canonical(made)} summed",
            )


def _sums_not_zero(balances: Mapping[BookKey, Decimal]) -> Iterable[LedgerFault]:
    sums: dict[str, Decimal] = {}
    for (_, _, _, asset), amount in balances.items():
        sums[asset] = add(sums.get(asset, _ZERO), amount)
    for asset, total in sorted(sums.items()):
        if total:
            yield LedgerFault(
                invariant="all accounts sum to zero for each asset",
                subject=asset,
                detail=canonical(total),
            )


def _wrong_holds(books: Books) -> Iterable[LedgerFault]:
    owned: dict[BookKey, Decimal] = {}
    for one in books.operations:
        if one.state.is_final and one.hold_left:
            yield LedgerFault(
                invariant="what is over holds nothing",
                subject=one.operation_id,
                detail=f"{canonical(one.hold_left)} {one.hold_asset}",
            )
        key = (one.order.venue, one.order.account, LedgerAccount.HELD, one.hold_asset)
        owned[key] = add(owned.get(key, _ZERO), one.hold_left)
    held = {key: v for key, v in books.balances.items() if key[2] is LedgerAccount.HELD}
    for key in sorted({key for key, v in owned.items() if v} | set(held)):
        has, owners = held.get(key, _ZERO), owned.get(key, _ZERO)
        if has != owners:
            yield LedgerFault(
                invariant="a hold has an owner",
                subject=" ".join(key),
                detail=f"{canonical(has)} held, {canonical(owners)} by operations",
            )


def _wrong_fills(books: Books) -> Iterable[LedgerFault]:
    filled: dict[str, Decimal] = {}
    for posting in books.postings:
        if posting.operation_id and posting.kind in _MOVED:
            so_far = filled.get(posting.operation_id, _ZERO)
            filled[posting.operation_id] = add(so_far, posting.quantity)
    for one in books.operations:
        booked = filled.get(one.operation_id, _ZERO)
        if booked != one.filled_quantity:
            yield LedgerFault(
                invariant="an operation is filled by what is booked for it",
                subject=one.operation_id,
                detail=f"{canonical(one.filled_quantity)} said, {canonical(booked)} booked",
            )
        if one.state is OperationState.VOIDED and booked:
            yield LedgerFault(
                invariant="what is void was never filled",
                subject=one.operation_id,
                detail=canonical(booked),
            )


def _strangers(books: Books) -> Iterable[LedgerFault]:
    by_client = {(one.order.venue, one.client_order_id): one for one in books.operations}
    for posting in books.postings:
        owner = by_client.get((posting.venue, posting.client_order_id))
        is_ours = bool(posting.client_order_id) and owner is not None
        said = posting.operation_id
        if posting.entries and is_ours and owner is not None and said != owner.operation_id:
            yield LedgerFault(
                invariant="a fact with an id of ours belongs to its operation",
                subject=_name(posting),
                detail=f"{said or 'nobody'} instead of {owner.operation_id}",
            )


def _wrong_actions(books: Books) -> Iterable[LedgerFault]:
    for one in books.operations:
        state = books.actions.get(one.operation_id)
        if state is None or state not in ACTION_OF[one.state]:
            yield LedgerFault(
                invariant="an operation and its action agree",
                subject=one.operation_id,
                detail=f"{one.state.value}, and the action is {state.value if state else 'gone'}",
            )
        if one.operation_id not in books.audited:
            yield LedgerFault(
                invariant="a move has its audit row",
                subject=one.operation_id,
                detail=one.state.value,
            )


def _name(posting: Posting) -> str:
    return f"{posting.kind.value} {posting.trade_id} of {posting.account}"
