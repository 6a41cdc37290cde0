"""The emergency stop as a value: the stricter of user's and installation's state."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from minara_core.taxonomy import TradingState

INSTALLATION = "*"
"""The scope of the installation's own row; no user has this id."""

HALT_FILE_REASON = "the file HALT lies in the data folder"

STRICTNESS = (TradingState.ACTIVE, TradingState.REDUCING, TradingState.HALTED)
"""From the loosest to the strictest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeState:
    """A stored state of one user, or of the installation. `revision` grows with every change;
    `resumed_etag` is the etag that the last resume was confirmed for."""

    scope: str
    state: TradingState = TradingState.ACTIVE
    reason: str = ""
    update_time: datetime | None = None
    revision: int = 0
    resumed_etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingStanding:
    """What holds for a user. `etag` changes with every change of either state."""

    state: TradingState
    reason: str
    update_time: datetime | None
    etag: str
    is_installation_wide: bool


def standing_of(
    user: ScopeState, installation: ScopeState, *, has_halt_file: bool
) -> TradingStanding:
    """The stricter state holds; the file halts the whole installation."""
    if has_halt_file:
        installation = ScopeState(
            scope=INSTALLATION,
            state=TradingState.HALTED,
            reason=HALT_FILE_REASON,
            update_time=installation.update_time,
            revision=installation.revision,
        )
    is_wide = _strictness(installation) > _strictness(user)
    stricter = installation if is_wide else user
    parts = f"{user.revision}:{user.state}:{installation.revision}:{installation.state}"
    return TradingStanding(
        state=stricter.state,
        reason=stricter.reason,
        update_time=stricter.update_time,
        etag=hashlib.sha256(f"{user.scope}:{parts}".encode()).hexdigest()[:32],
        is_installation_wide=is_wide,
    )


def _strictness(scope: ScopeState) -> int:
    return STRICTNESS.index(scope.state)
