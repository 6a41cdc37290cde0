"""Which driver errors mean "the database does not answer", and what leaves in their place."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import exc

from minara_core.errors import InvalidRequest, Unavailable
from minara_core.reasons import ErrorReason

_SQLITE_OUTAGES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOTADB,
    }
)
_PRIMARY_CODE = 0xFF
# Connection, authorization, unknown database, resources, operator intervention (with its timeouts),
# system error; then the single codes for a lock that did not come and an idle transaction cut off.
_POSTGRES_OUTAGE_CLASSES = ("08", "28", "3D", "53", "57", "58")
_POSTGRES_OUTAGES = frozenset({"55P03", "25P03"})
_POSTGRES_UNSTORABLE_TEXT = "22021"
_POSTGRES_RETRIES = frozenset({"40001", "40P01"})


def unavailable(
    cause: object, *, reason: ErrorReason = ErrorReason.DATABASE_UNAVAILABLE
) -> Unavailable:
    """The error a caller sees when the database does not answer."""
    return Unavailable(
        "the database does not answer", reason=reason, metadata={"cause": type(cause).__name__}
    )


def is_busy(error: exc.SQLAlchemyError | sqlite3.Error) -> bool:
    """Whether an SQLite lock did not come in time."""
    driver_error = getattr(error, "orig", error)
    return getattr(driver_error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_BUSY


def is_outage(error: exc.SQLAlchemyError | sqlite3.Error) -> bool:
    """Whether the database is busy, full or gone, rather than the statement wrong."""
    if isinstance(error, exc.TimeoutError):
        return True
    if isinstance(error, sqlite3.Error):
        return _is_sqlite_outage(error)
    if not isinstance(error, exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    if isinstance(error.orig, sqlite3.Error):
        return _is_sqlite_outage(error.orig)
    code = _sqlstate(error)
    return code in _POSTGRES_OUTAGES or code.startswith(_POSTGRES_OUTAGE_CLASSES)


def is_lost_race(error: exc.SQLAlchemyError) -> bool:
    """Whether PostgreSQL undid the transaction for another's sake: deadlock or serialization."""
    return isinstance(error, exc.DBAPIError) and _sqlstate(error) in _POSTGRES_RETRIES


def _is_sqlite_outage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _SQLITE_OUTAGES


def _sqlstate(error: exc.DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


@contextmanager
def translated() -> Generator[None]:
    """Let outages leave as Unavailable, and a value that its column type refused as itself."""
    try:
        yield
    except ConnectionError as error:
        raise unavailable(error) from error
    except sqlite3.Error as error:
        if is_outage(error):
            raise unavailable(error) from error
        raise
    except exc.SQLAlchemyError as error:
        if is_outage(error) or is_lost_race(error):
            raise unavailable(error.__cause__ or error) from error
        if isinstance(error, exc.DBAPIError) and _sqlstate(error) == _POSTGRES_UNSTORABLE_TEXT:
            raise InvalidRequest("text may not hold the character NUL") from error
        refused = type(error) is exc.StatementError and error.orig
        if isinstance(refused, Exception):
            raise refused from None
        raise
