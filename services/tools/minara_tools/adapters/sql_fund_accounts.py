"""The accounts whose books are open, as rows, inside somebody's money transaction."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa

from minara_core.errors import NotPermitted
from minara_core.ids import UserId
from minara_core.money import canonical
from minara_runtime.statements import insert_if_absent
from minara_tools.adapters.sql_fund_rows import book_posting
from minara_tools.adapters.sql_fund_tables import FUND_ACCOUNTS
from minara_tools.app.fund_ledger import Difference, FundAccount
from minara_tools.domain import postings
from minara_tools.domain.venue_terms import VenueFact

_ACCOUNT = sa.select(FUND_ACCOUNTS).where(
    FUND_ACCOUNTS.c.venue == sa.bindparam("at_venue"),
    FUND_ACCOUNTS.c.account == sa.bindparam("of_account"),
)
_ACCOUNTS = (
    sa.select(FUND_ACCOUNTS)
    .where(FUND_ACCOUNTS.c.venue == sa.bindparam("at_venue"))
    .order_by(FUND_ACCOUNTS.c.user_id, FUND_ACCOUNTS.c.account)
)
_FACTS_UNTIL = (
    sa.update(FUND_ACCOUNTS)
    .where(FUND_ACCOUNTS.c.venue == sa.bindparam("at_venue"))
    .where(FUND_ACCOUNTS.c.account == sa.bindparam("of_account"))
    .values(facts_time=sa.bindparam("until"))
)
_RECONCILED = (
    sa.update(FUND_ACCOUNTS)
    .where(
        FUND_ACCOUNTS.c.venue == sa.bindparam("at_venue"),
        FUND_ACCOUNTS.c.account == sa.bindparam("of_account"),
    )
    .values(differences=sa.bindparam("found"), reconcile_time=sa.bindparam("now"))
)


def account_of(connection: sa.Connection, venue: str, account: str) -> FundAccount | None:
    """The account, if its books are open."""
    row = connection.execute(_ACCOUNT, {"at_venue": venue, "of_account": account}).first()
    return None if row is None else _account(row)


def accounts_of(
    connection: sa.Connection, venue: str, user_id: UserId | None
) -> tuple[FundAccount, ...]:
    """A person's accounts at a venue, or everybody's."""
    rows = connection.execute(_ACCOUNTS, {"at_venue": venue}).all()
    return tuple(_account(row) for row in rows if user_id in {None, row.user_id})


def open_books(
    connection: sa.Connection,
    new: FundAccount,
    *,
    balances: Mapping[str, Decimal],
    included: Sequence[VenueFact],
    now: datetime,
) -> None:
    """Open an account's books, unless they are open. Raises NotPermitted for another person's."""
    known = account_of(connection, new.venue, new.account)
    if known is not None and known.user_id != new.user_id:
        raise NotPermitted("this venue account is another person's")
    row = {
        "venue": new.venue,
        "account": new.account,
        "user_id": new.user_id,
        "open_time": new.open_time,
        "facts_time": new.facts_time,
        "differences": "{}",
        "reconcile_time": None,
    }
    if known is None and insert_if_absent(connection, FUND_ACCOUNTS, row):
        first = postings.opening(new.venue, new.account, balances, now)
        book_posting(connection, new.user_id, first, now)
        for fact in included:
            book_posting(connection, new.user_id, postings.included(new.venue, fact), now)


def facts_are_booked(connection: sa.Connection, venue: str, account: str, until: datetime) -> None:
    """Note until when all facts of an account are booked."""
    cursor = {"at_venue": venue, "of_account": account, "until": until}
    connection.execute(_FACTS_UNTIL, cursor)


def note_differences(
    connection: sa.Connection, seen: Difference, found: Mapping[str, Decimal], now: datetime
) -> None:
    """Remember what this comparison found, for the next one."""
    text = json.dumps({asset: canonical(amount) for asset, amount in found.items()})
    key = {"at_venue": seen.venue, "of_account": seen.account}
    connection.execute(_RECONCILED, key | {"found": text, "now": now})


def _account(row: sa.Row[*tuple[object, ...]]) -> FundAccount:
    amounts = json.loads(row.differences)
    return FundAccount(
        user_id=UserId(row.user_id),
        venue=row.venue,
        account=row.account,
        open_time=row.open_time,
        facts_time=row.facts_time,
        differences={asset: Decimal(amount) for asset, amount in amounts.items()},
    )
