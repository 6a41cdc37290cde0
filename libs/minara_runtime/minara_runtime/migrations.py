"""Alembic, driven from code: one environment for every service and both dialects.

A service keeps its revisions in `adapters/migrations/versions` and hands that folder to
`Database.migrate`. A revision that wants the shared tables calls `create_lease_tables(op)` or
`create_audit_tables(op)`; what those make is fixed by the first release, later changes of the
shared tables come as further functions here.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory

from minara_core.errors import InvalidRequest, NotReady
from minara_core.reasons import ErrorReason
from minara_runtime.audit_tables import AUDIT_TABLES
from minara_runtime.lease_table import LEASE_TABLES

_ENVIRONMENT = Path(__file__).parent / "alembic_env"


_OWNERS = sa.Table("minara_owner", sa.MetaData(), sa.Column("name", sa.Text, primary_key=True))


def upgrade(connection: sa.Connection, versions: Path, *, owner: str = "") -> None:
    """Run the missing revisions in the connection's own transaction; the caller commits.

    `owner` is who the database belongs to from the first time on. Raises NotReady
    (`SCHEMA_TOO_NEW`) for a database that a newer version has migrated, InvalidRequest for one that
    belongs to another owner.
    """
    if owner:
        _refuse_foreign(connection, owner)
    config = Config()
    config.set_main_option("script_location", _escaped(_ENVIRONMENT))
    config.set_main_option("version_locations", _escaped(versions))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    _refuse_newer(connection, ScriptDirectory.from_config(config))
    command.upgrade(config, "head")


def _refuse_foreign(connection: sa.Connection, owner: str) -> None:
    _OWNERS.create(connection, checkfirst=True)
    known = connection.execute(sa.select(_OWNERS.c.name)).scalar()
    if known is None:
        connection.execute(sa.insert(_OWNERS), {"name": owner})
    elif known != owner:
        raise InvalidRequest(
            f"this database is that of {known}; {owner} needs one of its own",
            metadata={"owner": known, "service": owner},
        )


def _refuse_newer(connection: sa.Connection, known: ScriptDirectory) -> None:
    revisions = {script.revision for script in known.walk_revisions()}
    for current in MigrationContext.configure(connection).get_current_heads():
        if current not in revisions:
            raise NotReady(
                f"the database has the revision {current}, and this version of Minara knows only "
                f"{', '.join(sorted(revisions)) or 'none'}: start the newer one, or restore the "
                "backup made before it",
                reason=ErrorReason.SCHEMA_TOO_NEW,
                metadata={"revision": current},
            )


def create_lease_tables(op: Operations) -> None:
    """Make the table that `leases.Leases` uses."""
    LEASE_TABLES.create_all(op.get_bind(), checkfirst=False)


def create_audit_tables(op: Operations) -> None:
    """Make the tables that `audit` uses."""
    AUDIT_TABLES.create_all(op.get_bind(), checkfirst=False)


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")
