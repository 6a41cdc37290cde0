"""Trading states: one row per user and one for the installation; the stricter holds."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

import sqlalchemy as sa

from minara_core.actions import ActionState, PendingAction
from minara_core.audit import AuditRecord
from minara_core.errors import Conflict, NotReady
from minara_core.ids import UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import TradingState
from minara_runtime import audit as audit_chain
from minara_runtime.database import Database
from minara_runtime.statements import insert_if_absent
from minara_tools.adapters.sql_action_rows import load_actions, locked_actions, write_change
from minara_tools.adapters.sql_fund_locks import lock_funds
from minara_tools.adapters.sql_mandates import revoke_mandates
from minara_tools.adapters.sql_tables import TRADING_STATES
from minara_tools.app.stores import ActionChange, Halted
from minara_tools.domain.mandates import Mandate
from minara_tools.domain.trading import (
    INSTALLATION,
    STRICTNESS,
    ScopeState,
    TradingStanding,
    standing_of,
)

HasHaltFile = Callable[[], bool]

_BOTH = sa.select(TRADING_STATES).where(
    TRADING_STATES.c.scope.in_([INSTALLATION, sa.bindparam("of_user")])
)
_SHARED = _BOTH.order_by(TRADING_STATES.c.scope).with_for_update(read=True)
_OWN = (
    sa.select(TRADING_STATES)
    .where(TRADING_STATES.c.scope == sa.bindparam("of_scope"))
    .with_for_update()
)
_SET = (
    sa.update(TRADING_STATES)
    .where(TRADING_STATES.c.scope == sa.bindparam("of_scope"))
    .values(
        state=sa.bindparam("to_state"),
        reason=sa.bindparam("to_reason"),
        revision=TRADING_STATES.c.revision + 1,
        resumed_etag=sa.bindparam("etag"),
        update_time=sa.bindparam("now"),
    )
)
_OPEN_STATES = (ActionState.PENDING, ActionState.CONFIRMED)


def trading_standing(
    connection: sa.Connection, user_id: str, has_halt_file: HasHaltFile
) -> TradingStanding:
    """What holds for a user now."""
    return _standing(connection, user_id, has_halt_file, _BOTH)


def held_trading_standing(
    connection: sa.Connection, user_id: str, has_halt_file: HasHaltFile
) -> TradingStanding:
    """The same, and nobody halts or resumes until this transaction ends."""
    for scope in (INSTALLATION, user_id):
        _ensure(connection, scope)
    return _standing(connection, user_id, has_halt_file, _SHARED)


def tighten(
    connection: sa.Connection, user_id: str, state: TradingState, reason: str, *, now: datetime
) -> None:
    """Make a person's own state at least this strict; it never becomes looser."""
    _ensure(connection, user_id)
    own = _scope_state(connection.execute(_OWN, {"of_scope": user_id}).one())
    if STRICTNESS.index(state) > STRICTNESS.index(own.state):
        _set(connection, user_id, state, reason, etag="", now=now)


class SqlTradingStates:
    """Implements TradingStates."""

    def __init__(self, database: Database, has_halt_file: HasHaltFile) -> None:
        self._database = database
        self._has_halt_file = has_halt_file

    async def current(self, user_id: UserId) -> TradingStanding:
        return await self._database.read(
            lambda c: trading_standing(c, user_id, self._has_halt_file)
        )

    async def halt(
        self,
        user_id: UserId,
        *,
        reason: str,
        now: datetime,
        reject: Callable[[PendingAction], ActionChange],
        audit: AuditRecord,
        revoke: Callable[[Mandate, datetime], AuditRecord],
    ) -> Halted:
        def write(connection: sa.Connection) -> Halted:
            lock_funds(connection, user_id)
            _ensure(connection, user_id)
            own = _scope_state(connection.execute(_OWN, {"of_scope": user_id}).one())
            if own.state is not TradingState.HALTED:
                _set(connection, user_id, TradingState.HALTED, reason, etag="", now=now)
                audit_chain.append(connection, [audit])
            rows = locked_actions(connection, user_id, _OPEN_STATES)
            rejected: list[PendingAction] = []
            for action in load_actions(connection, rows):
                change = reject(action)
                write_change(connection, change, now=now)
                rejected += [action] if change.action else []
            revoke_mandates(connection, user_id, reason=reason, now=now, audit=revoke)
            return Halted(
                standing=trading_standing(connection, user_id, self._has_halt_file),
                rejected=tuple(action.pending_action_id for action in rejected),
            )

        return await self._database.transaction(write)

    async def set_installation(
        self, state: TradingState, reason: str, *, now: datetime, audit: AuditRecord
    ) -> None:
        def write(connection: sa.Connection) -> None:
            _ensure(connection, INSTALLATION)
            _set(connection, INSTALLATION, state, reason, etag="", now=now)
            audit_chain.append(connection, [audit])

        await self._database.transaction(write)

    async def resume(
        self, user_id: UserId, *, etag: str, now: datetime, audit: AuditRecord
    ) -> TradingStanding:
        def write(connection: sa.Connection) -> TradingStanding:
            lock_funds(connection, user_id)
            _ensure(connection, user_id)
            own = _scope_state(connection.execute(_OWN, {"of_scope": user_id}).one())
            standing = trading_standing(connection, user_id, self._has_halt_file)
            if own.state is TradingState.ACTIVE and own.resumed_etag == etag:
                return standing
            if standing.etag != etag:
                raise Conflict(
                    "the trading state has changed since it was seen",
                    reason=ErrorReason.CONFIRMATION_MISMATCH,
                    metadata={"etag": standing.etag},
                )
            if self._is_installation_halted(connection):
                raise NotReady(
                    f"the whole installation is halted: {standing.reason}",
                    reason=ErrorReason.TRADING_HALTED,
                )
            _set(connection, user_id, TradingState.ACTIVE, "", etag=etag, now=now)
            audit_chain.append(connection, [audit])
            return trading_standing(connection, user_id, self._has_halt_file)

        return await self._database.transaction(write)

    def _is_installation_halted(self, connection: sa.Connection) -> bool:
        nobody = trading_standing(connection, INSTALLATION, self._has_halt_file)
        return nobody.state is TradingState.HALTED


def _standing(
    connection: sa.Connection,
    user_id: str,
    has_halt_file: HasHaltFile,
    statement: sa.Select[*tuple[object, ...]],
) -> TradingStanding:
    rows = connection.execute(statement, {"of_user": user_id}).all()
    found = {row.scope: _scope_state(row) for row in rows}
    return standing_of(
        found.get(user_id, ScopeState(scope=user_id)),
        found.get(INSTALLATION, ScopeState(scope=INSTALLATION)),
        has_halt_file=has_halt_file(),
    )


def _ensure(connection: sa.Connection, scope: str) -> None:
    first = asdict(ScopeState(scope=scope))
    insert_if_absent(connection, TRADING_STATES, first | {"state": TradingState.ACTIVE.value})


def _set(
    connection: sa.Connection,
    scope: str,
    state: TradingState,
    reason: str,
    *,
    etag: str,
    now: datetime,
) -> None:
    connection.execute(
        _SET,
        {
            "of_scope": scope,
            "to_state": state.value,
            "to_reason": reason[:500],
            "etag": etag,
            "now": now,
        },
    )


def _scope_state(row: sa.Row[*tuple[object, ...]]) -> ScopeState:
    return ScopeState(
        scope=row.scope,
        state=TradingState(row.state),
        reason=row.reason,
        update_time=row.update_time,
        revision=row.revision,
        resumed_etag=row.resumed_etag,
    )
