"""Commit tokens, sealed with a key that every replica reads from the workspace's own database."""

import base64
import hashlib
import hmac
import json
import secrets
from datetime import datetime

import sqlalchemy as sa

from minara_core.errors import InvalidRequest
from minara_runtime.database import Database
from minara_runtime.statements import insert_if_absent
from minara_workspace.adapters.sql_tables import META
from minara_workspace.domain.session import FrozenBlocks

_KEY_NAME = "commit_token_key"
_KEY = sa.select(META.c.value).where(META.c.name == _KEY_NAME)


class SealedTokens:
    """Implements CommitTokens. `load_key` is called once, before the first use."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._key = b""

    async def load_key(self) -> None:
        """Read the installation's key, or make it."""

        def read(connection: sa.Connection) -> str:
            fresh = {"name": _KEY_NAME, "value": secrets.token_hex(32)}
            insert_if_absent(connection, META, fresh)
            return connection.execute(_KEY).scalar_one()

        self._key = bytes.fromhex(await self._database.transaction(read))

    def seal(self, turn_id: str, blocks: FrozenBlocks) -> str:
        refresh = blocks.refresh_time.isoformat() if blocks.refresh_time else ""
        body = json.dumps([turn_id, blocks.identity, blocks.memory, refresh]).encode()
        return base64.b64encode(self._mac(body) + body).decode("ascii")

    def open(self, turn_id: str, token: str) -> FrozenBlocks | None:
        if not token:
            return None
        try:
            sealed = base64.b64decode(token.encode("ascii"), validate=True)
        except ValueError as error:
            raise _foreign() from error
        mac, body = sealed[:32], sealed[32:]
        if not hmac.compare_digest(mac, self._mac(body)):
            raise _foreign()
        bound, identity, memory, refresh = json.loads(body)
        if bound != turn_id:
            raise _foreign()
        return FrozenBlocks(
            identity=identity,
            memory=memory,
            refresh_time=datetime.fromisoformat(refresh) if refresh else None,
        )

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._key, body, hashlib.sha256).digest()


def _foreign() -> InvalidRequest:
    return InvalidRequest(
        "this commit_token is not of this turn", metadata={"field": "commit_token"}
    )
