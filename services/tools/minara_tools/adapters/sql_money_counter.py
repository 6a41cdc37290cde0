"""How many money transactions a database has seen, followed by a file outside it.

A database that is behind its file, has no file, or (SQLite) lies on another host than its file says
was restored or copied: what it believes to be pending may have been executed (safety.md §4).
"""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from minara_core.ids import IdSource
from minara_runtime.statements import insert_if_absent, lock_row
from minara_tools.adapters.counter_file import CounterFile, CounterFileError, CounterRecord
from minara_tools.adapters.sql_fund_tables import MONEY_COUNTERS

_NAME = "money"
_ROW = sa.select(MONEY_COUNTERS).where(MONEY_COUNTERS.c.name == _NAME)
_COUNT = (
    sa.update(MONEY_COUNTERS)
    .where(MONEY_COUNTERS.c.name == _NAME)
    .values(counter=MONEY_COUNTERS.c.counter + 1)
)

_DOUBT = "doubt"
_SETTLE = sa.delete(MONEY_COUNTERS).where(MONEY_COUNTERS.c.name == _DOUBT)
_ADOPT = (
    sa.update(MONEY_COUNTERS)
    .where(MONEY_COUNTERS.c.name == _NAME)
    .values(database_id=sa.bindparam("to_id"), counter=sa.bindparam("to_counter"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How far a database has come, and under which identity."""

    database_id: str
    counter: int


@dataclass(slots=True)
class MoneyCounter:
    """`begin` looks at the database, once; `next` counts inside a transaction, last of all, since
    the row is one for all; `follow` writes the file and must not run in the event loop."""

    file: CounterFile
    host: str
    ids: IdSource
    _doubted_id: str = ""
    """The database's identity while this process doubts it; adopting it gives it another one."""

    def begin(self, connection: sa.Connection) -> str:
        """Why this database counts as restored or copied; empty when it does not."""
        # The file first: other replicas go on counting, the database before the file.
        record = self._read_file()
        fresh = {"name": _NAME, "database_id": self.ids.new(), "counter": 0}
        is_new = insert_if_absent(connection, MONEY_COUNTERS, fresh)
        row = connection.execute(_ROW).one()
        is_alone = connection.dialect.name == "sqlite"
        reason = self._doubt(record, row, is_new=is_new, is_alone=is_alone)
        self._doubted_id = row.database_id if reason else ""
        if reason:
            # Any replica may be asked to adopt what this one has found.
            doubt = {"name": _DOUBT, "database_id": row.database_id, "counter": row.counter}
            insert_if_absent(connection, MONEY_COUNTERS, doubt)
            reason = f"{reason} (found by {self.host} with {self.file.path})"
        return reason

    def next(self, connection: sa.Connection) -> Counted:
        connection.execute(_COUNT)
        row = connection.execute(_ROW).one()
        return Counted(database_id=row.database_id, counter=row.counter)

    def follow(self, counted: Counted) -> None:
        """Have the file say at least that. While the database is in doubt the file stays."""
        if counted.database_id != self._doubted_id:
            self.file.advance(counted.database_id, counted.counter)

    def adopt(self, connection: sa.Connection) -> bool:
        """A person has looked at the books: from now on they are the right ones, under an identity
        of their own, so that no older file or copy fits them. False when no replica doubts them."""
        row = lock_row(connection, _ROW)
        if row is None or connection.execute(_SETTLE).rowcount == 0:
            return False
        adopted = Counted(database_id=self.ids.new(), counter=row.counter + 1)
        parameters = {"to_id": adopted.database_id, "to_counter": adopted.counter}
        connection.execute(_ADOPT, parameters)
        self.file.adopt(adopted.database_id, adopted.counter)
        return True

    def _read_file(self) -> CounterRecord | str | None:
        """What the file says, or why it says nothing."""
        try:
            return self.file.read()
        except (CounterFileError, OSError) as error:
            return f"the counter file cannot be read: {error}"

    def _doubt(
        self, record: CounterRecord | str | None, row: sa.Row[Any], *, is_new: bool, is_alone: bool
    ) -> str:
        if isinstance(record, str):
            return record
        if record is None:
            return "" if is_new or row.counter == 0 else "the counter file is missing"
        if record.database_id != row.database_id:
            return "the counter file is of another database"
        if record.counter > row.counter:
            return "the database is older than its counter file: it was restored"
        if is_alone and record.host != self.host:
            return "the database was copied from another machine"
        return ""
