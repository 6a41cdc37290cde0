"""How many money transactions a database has seen, followed by a file outside it.

A database that is behind its file, has no file, or (SQLite) lies on another host than its file says
was restored or copied: what it believes to be pending may have been executed (safety.md §4).
"""

from dataclasses import dataclass

import sqlalchemy as sa

from minara_core.ids import IdSource
from minara_runtime.statements import insert_if_absent, lock_row
from minara_tools.adapters.counter_file import CounterFile, CounterFileError
from minara_tools.adapters.sql_fund_tables import MONEY_COUNTERS

_NAME = "money"
_ROW = sa.select(MONEY_COUNTERS).where(MONEY_COUNTERS.c.name == _NAME)
_COUNT = (
    sa.update(MONEY_COUNTERS)
    .where(MONEY_COUNTERS.c.name == _NAME)
    .values(counter=MONEY_COUNTERS.c.counter + 1)
)

_ADOPT = (
    sa.update(MONEY_COUNTERS)
    .where(MONEY_COUNTERS.c.name == _NAME)
    .values(database_id=sa.bindparam("to_id"), counter=sa.bindparam("to_counter"))
)


@dataclass(slots=True)
class MoneyCounter:
    """`begin` names the database, once; `next` counts inside a transaction, last of all, since the
    row is one for all; `follow` writes the file and must not run in the event loop."""

    file: CounterFile
    host: str
    ids: IdSource
    _database_id: str = ""
    _is_trusted: bool = False

    def begin(self, connection: sa.Connection) -> str:
        """Why this database counts as restored or copied; empty when it does not."""
        fresh = {"name": _NAME, "database_id": self.ids.new(), "counter": 0}
        is_new = insert_if_absent(connection, MONEY_COUNTERS, fresh)
        row = connection.execute(_ROW).one()
        self._database_id = row.database_id
        is_alone = connection.dialect.name == "sqlite"
        reason = self._doubt(row.database_id, row.counter, is_new=is_new, is_alone=is_alone)
        self._is_trusted = not reason
        return reason

    def next(self, connection: sa.Connection) -> int:
        connection.execute(_COUNT)
        return connection.execute(_ROW).one().counter

    def follow(self, counter: int) -> None:
        """Have the file say at least `counter`. While the database is in doubt the file stays."""
        if self._is_trusted:
            self.file.advance(self._database_id, counter)

    def adopt(self, connection: sa.Connection) -> None:
        """A person has looked at the books: from now on they are the right ones, under an identity
        of their own, so that no older file or copy fits them."""
        row = lock_row(connection, _ROW)
        self._database_id = self.ids.new()
        counter = (row.counter if row else 0) + 1
        adopted = {"to_id": self._database_id, "to_counter": counter}
        connection.execute(_ADOPT, adopted)
        self.file.adopt(self._database_id, counter)
        self._is_trusted = True

    def _doubt(self, database_id: str, counter: int, *, is_new: bool, is_alone: bool) -> str:
        try:
            record = self.file.read()
        except (CounterFileError, OSError) as error:
            return f"the counter file cannot be read: {error}"
        if record is None:
            return "" if is_new or counter == 0 else "the counter file is missing"
        if record.database_id != database_id:
            return "the counter file is of another database"
        if record.counter > counter:
            return "the database is older than its counter file: it was restored"
        if is_alone and record.host != self.host:
            return "the database was copied from another machine"
        return ""
