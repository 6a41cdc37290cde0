"""The table of leases: one row per name that was ever held."""

import sqlalchemy as sa

from minara_runtime.columns import UtcTime

LEASE_TABLES = sa.MetaData()

LEASES = sa.Table(
    "leases",
    LEASE_TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("expire_time", UtcTime, nullable=False),
)
