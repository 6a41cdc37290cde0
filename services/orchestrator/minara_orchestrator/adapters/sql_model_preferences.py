"""Which model each person chose, in the orchestrator's own database."""

import sqlalchemy as sa

from minara_core.ids import UserId
from minara_orchestrator.adapters.sql_tables import MODEL_PREFERENCES
from minara_runtime.database import Database
from minara_runtime.statements import insert_if_absent

_CHOICE = sa.select(MODEL_PREFERENCES.c.choice).where(
    MODEL_PREFERENCES.c.user_id == sa.bindparam("person")
)
_CHANGE = (
    sa.update(MODEL_PREFERENCES)
    .where(MODEL_PREFERENCES.c.user_id == sa.bindparam("person"))
    .values(choice=sa.bindparam("new_choice"))
)


class SqlModelPreferences:
    """Implements ModelPreferences."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, user_id: UserId) -> str:
        def read(connection: sa.Connection) -> str:
            return connection.execute(_CHOICE, {"person": user_id}).scalar_one_or_none() or ""

        return await self._database.read(read, brief=True)

    async def set(self, user_id: UserId, choice: str) -> None:
        def write(connection: sa.Connection) -> None:
            row = {"user_id": user_id, "choice": choice}
            if not insert_if_absent(connection, MODEL_PREFERENCES, row):
                connection.execute(_CHANGE, {"person": user_id, "new_choice": choice})

        await self._database.transaction(write)
