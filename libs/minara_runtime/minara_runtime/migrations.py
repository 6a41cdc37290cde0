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
from alembic.operations import Operations

from minara_runtime.audit_tables import AUDIT_TABLES
from minara_runtime.lease_table import LEASE_TABLES

_ENVIRONMENT = Path(__file__).parent / "alembic_env"


def upgrade(connection: sa.Connection, versions: Path) -> None:
    """Run the missing revisions in the connection's own transaction; the caller commits."""
    config = Config()
    config.set_main_option("script_location", _escaped(_ENVIRONMENT))
    config.set_main_option("version_locations", _escaped(versions))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def create_lease_tables(op: Operations) -> None:
    """Make the table that `leases.Leases` uses."""
    LEASE_TABLES.create_all(op.get_bind(), checkfirst=False)


def create_audit_tables(op: Operations) -> None:
    """Make the tables that `audit` uses."""
    AUDIT_TABLES.create_all(op.get_bind(), checkfirst=False)


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")
