"""What booked facts give cause for: facts are booked first and judged afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from minara_core.taxonomy import TradingState
from minara_tools.domain.operations import Operation, OperationState
from minara_tools.domain.postings import Booked, LedgerAccount, PostingKind


class AlarmKind(StrEnum):
    """VOIDED_FILLED: the venue filled what was proven absent. OVERDRAWN: less than nothing is
    available. UNEXPLAINED: the venue's balance differs from the books for no known reason.
    FOREIGN_WITHDRAWAL: something left the account that no operation of ours sent."""

    VOIDED_FILLED = "voided_filled"
    OVERDRAWN = "overdrawn"
    UNEXPLAINED = "unexplained"
    FOREIGN_WITHDRAWAL = "foreign_withdrawal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """`state` is what the person's trading state becomes, unless it is stricter already."""

    kind: AlarmKind
    state: TradingState
    venue: str
    account: str
    reason: str
    operation_id: str = ""


def of_booking(booked: Booked, before: Operation | None) -> Alarm | None:
    """What one posting gives cause for; `before` is its operation as it was."""
    posting = booked.posting
    if before is not None and before.state is OperationState.VOIDED:
        return Alarm(
            kind=AlarmKind.VOIDED_FILLED,
            state=TradingState.HALTED,
            venue=posting.venue,
            account=posting.account,
            reason=f"the venue has executed operation {before.operation_id}, which was void",
            operation_id=before.operation_id,
        )
    if before is None and posting.kind is PostingKind.WITHDRAWAL:
        return Alarm(
            kind=AlarmKind.FOREIGN_WITHDRAWAL,
            state=TradingState.REDUCING,
            venue=posting.venue,
            account=posting.account,
            reason="something was withdrawn that no confirmed move sent",
        )
    return None


def overdrawn(
    venue: str, account: str, balances: Mapping[tuple[LedgerAccount, str], Decimal]
) -> Alarm | None:
    """Whether facts took more than was there."""
    short = sorted(
        asset
        for (ledger_account, asset), amount in balances.items()
        if ledger_account is LedgerAccount.AVAILABLE and amount < 0
    )
    if not short:
        return None
    return Alarm(
        kind=AlarmKind.OVERDRAWN,
        state=TradingState.REDUCING,
        venue=venue,
        account=account,
        reason=f"less than nothing of {', '.join(short)} is available",
    )


def unexplained(venue: str, account: str, changes: Mapping[str, Decimal]) -> Alarm:
    """A difference that two looks at the venue agree on."""
    assets = ", ".join(sorted(changes))
    return Alarm(
        kind=AlarmKind.UNEXPLAINED,
        state=TradingState.REDUCING,
        venue=venue,
        account=account,
        reason=f"the venue's balance of {assets} differs from the books",
    )
