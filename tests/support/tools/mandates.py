"""Mandates as a person confirmed them."""

from datetime import timedelta

from minara_core.grant import Grant, GrantType
from minara_tools.domain.mandates import mandate_of
from support.actions import NOW

A_GRANT = Grant(
    grant_type=GrantType.MANDATE,
    issuer="gateway-confirm",
    audience="tools",
    subject="local",
    grant_id="mandate-1",
    issue_time=NOW,
    expire_time=NOW + timedelta(days=30),
    definition_hash="ab" * 32,
    strategy="dca",
    mode="paper",
    account="paper-1",
    instruments=frozenset({"ETH/USDC"}),
    sides=frozenset({"buy", "sell"}),
    max_per_move="100",
    max_per_day="250",
    max_total="1000",
    max_loss="50",
)
"""A strategy that buys and sells ETH for at most $100 a move."""

A_MANDATE = mandate_of(A_GRANT)
