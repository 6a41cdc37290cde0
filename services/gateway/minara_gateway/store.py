"""What the gateway keeps: hashed tokens, previews it has shown, idempotency keys."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from minara_core.actions import PendingAction
from minara_core.clock import Clock
from minara_core.errors import Conflict, NotFound
from minara_core.ids import UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Scope
from minara_runtime.columns import UtcTime
from minara_runtime.database import Database
from minara_runtime.statements import insert_if_absent

VERSIONS = Path(__file__).parent / "migrations" / "versions"

_TABLES = sa.MetaData()
_TOKENS = sa.Table(
    "tokens",
    _TABLES,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("is_interactive", sa.Boolean, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
)
_SHOWN = sa.Table(
    "shown_actions",
    _TABLES,
    sa.Column("pending_action_id", sa.Text, primary_key=True),
    sa.Column("action_hash", sa.Text, primary_key=True),
    sa.Column("user_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("turn_id", sa.Text, nullable=False),
    sa.Column("is_last_word", sa.Boolean, nullable=False),
    sa.Column("show_time", UtcTime, nullable=False),
)
_KEYS = sa.Table(
    "idempotency_keys",
    _TABLES,
    sa.Column("user_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("body_hash", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
)
_FIND_TOKEN = sa.select(_TOKENS.c.user_id, _TOKENS.c.scopes, _TOKENS.c.is_interactive).where(
    _TOKENS.c.token_hash == sa.bindparam("hash")
)
_TOKEN_ID_LENGTH = 16
_ALL_TOKENS = sa.select(_TOKENS).order_by(_TOKENS.c.create_time, _TOKENS.c.token_hash)
_REVOKE = sa.delete(_TOKENS).where(
    sa.func.substr(_TOKENS.c.token_hash, 1, _TOKEN_ID_LENGTH) == sa.bindparam("start")
)
_FIND_SHOWN = sa.select(_SHOWN.c.is_last_word).where(
    _SHOWN.c.pending_action_id == sa.bindparam("action"),
    _SHOWN.c.action_hash == sa.bindparam("hash"),
    _SHOWN.c.user_id == sa.bindparam("person"),
)
_SET_LAST_WORD = (
    sa.update(_SHOWN)
    .where(
        _SHOWN.c.pending_action_id == sa.bindparam("action"),
        _SHOWN.c.action_hash == sa.bindparam("hash"),
    )
    .values(is_last_word=sa.bindparam("is_last"))
)
_FIND_KEY = sa.select(_KEYS.c.body_hash).where(
    _KEYS.c.user_id == sa.bindparam("person"), _KEYS.c.key == sa.bindparam("name")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who speaks over HTTP. `is_interactive`: a person's log-in, not a program's token."""

    user_id: UserId
    scopes: frozenset[Scope]
    is_interactive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToken:
    """A token as it can be shown: `token_id` is the start of its hash."""

    token_id: str
    name: str
    caller: Caller
    create_time: datetime


def _caller(row: Any) -> Caller:
    return Caller(
        user_id=UserId(row.user_id),
        scopes=frozenset(Scope(scope) for scope in row.scopes.split()),
        is_interactive=row.is_interactive,
    )


def _key(action: PendingAction) -> dict[str, object]:
    return {"action": action.pending_action_id, "hash": action.action_hash}


def token_hash(token: str) -> str:
    return hashlib.sha256(f"minara-token:{token}".encode()).hexdigest()


class GatewayStore:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def migrate(self) -> None:
        await self._database.migrate(VERSIONS, owner="gateway")

    async def answers(self) -> bool:
        """Whether the database can be reached now."""
        return await self._database.answers()

    async def add_token(self, token: str, caller: Caller, *, name: str) -> None:
        """Know a token from now on; again is harmless."""
        values = {
            "token_hash": token_hash(token),
            "user_id": caller.user_id,
            "name": name,
            "scopes": " ".join(sorted(caller.scopes)),
            "is_interactive": caller.is_interactive,
            "create_time": self._clock.now(),
        }
        await self._database.transaction(lambda c: insert_if_absent(c, _TOKENS, values))

    async def tokens(self) -> list[KnownToken]:
        """All tokens, oldest first."""
        rows = await self._database.read(lambda c: c.execute(_ALL_TOKENS).all())
        return [
            KnownToken(
                token_id=row.token_hash[:_TOKEN_ID_LENGTH],
                name=row.name,
                caller=_caller(row),
                create_time=row.create_time,
            )
            for row in rows
        ]

    async def revoke_token(self, token_id: str) -> None:
        """Forget a token. Raises NotFound when none has this id."""

        def revoke(connection: sa.Connection) -> int:
            return connection.execute(_REVOKE, {"start": token_id}).rowcount

        is_whole = len(token_id) == _TOKEN_ID_LENGTH and token_id.isalnum()
        if not is_whole or await self._database.transaction(revoke) == 0:
            raise NotFound(
                "no token has this id",
                reason=ErrorReason.TOKEN_INVALID,
                metadata={"token_id": token_id[:100]},
            )

    async def find_caller(self, token: str) -> Caller | None:
        """Who a token belongs to, or None."""
        parameters = {"hash": token_hash(token)}
        row = await self._database.read(lambda c: c.execute(_FIND_TOKEN, parameters).first())
        return None if row is None else _caller(row)

    async def record_shown(self, action: PendingAction, *, is_last_word: bool) -> None:
        """Remember, before it is delivered, that this person is shown this very hash.

        `is_last_word`: it is the last thing a turn delivers, so that a bare yes can mean it.
        """
        values = {
            "pending_action_id": action.pending_action_id,
            "action_hash": action.action_hash,
            "user_id": action.user_id,
            "session_id": action.session_id,
            "turn_id": action.turn_id,
            "is_last_word": is_last_word,
            "show_time": self._clock.now(),
        }

        def record(connection: sa.Connection) -> None:
            if not insert_if_absent(connection, _SHOWN, values) and is_last_word:
                connection.execute(_SET_LAST_WORD, _key(action) | {"is_last": True})

        await self._database.transaction(record)

    async def take_back_last_word(self, action: PendingAction) -> None:
        """Something else was delivered after the preview: a bare yes no longer means it."""
        parameters = _key(action) | {"is_last": False}
        await self._database.transaction(lambda c: c.execute(_SET_LAST_WORD, parameters))

    async def was_shown(self, user_id: UserId, pending_action_id: str, action_hash: str) -> bool:
        parameters = {"action": pending_action_id, "hash": action_hash, "person": user_id}
        row = await self._database.read(lambda c: c.execute(_FIND_SHOWN, parameters).first())
        return row is not None

    async def is_last_word(self, action: PendingAction) -> bool:
        """Whether this preview was the last thing its turn delivered to its person."""
        parameters = _key(action) | {"person": action.user_id}
        row = await self._database.read(lambda c: c.execute(_FIND_SHOWN, parameters).first())
        return row is not None and row.is_last_word

    async def claim_key(self, user_id: UserId, key: str, body_hash: str) -> bool:
        """Bind an idempotency key to a body; whether it is new. Raises Conflict when it was bound
        to another."""

        def claim(connection: sa.Connection) -> tuple[bool, str]:
            values = {
                "user_id": user_id,
                "key": key,
                "body_hash": body_hash,
                "create_time": self._clock.now(),
            }
            if insert_if_absent(connection, _KEYS, values):
                return True, body_hash
            parameters = {"person": user_id, "name": key}
            return False, connection.execute(_FIND_KEY, parameters).scalar_one()

        is_new, bound = await self._database.transaction(claim)
        if bound != body_hash:
            raise Conflict(
                "this Idempotency-Key came with another body before",
                reason=ErrorReason.IDEMPOTENCY_KEY_REUSED,
            )
        return is_new

    async def aclose(self) -> None:
        await self._database.aclose()
