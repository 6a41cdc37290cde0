"""How many fund operations are not settled, by state; counted in the background for `/metrics`."""

import sqlalchemy as sa

from minara_core.clock import pause
from minara_runtime import genai
from minara_runtime.database import Database
from minara_runtime.figures import OPERATIONS as OPERATIONS_FIGURE
from minara_runtime.figures import Gauge, Labels
from minara_tools.adapters.sql_fund_tables import OPERATIONS
from minara_tools.domain.operations import OperationState

EVERY_SECONDS = 10.0

_UNSETTLED = tuple(state.value for state in OperationState if not state.is_final)
_COUNT = (
    sa.select(OPERATIONS.c.state, sa.func.count())
    .where(OPERATIONS.c.state.in_(_UNSETTLED))
    .group_by(OPERATIONS.c.state)
)


class OperationCounts:
    """The counts of the whole ledger: every replica tells the same."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: dict[str, int] = {}

    async def count(self) -> None:
        """Count anew. Raises Unavailable when the database is away."""
        rows = await self._database.read(lambda c: c.execute(_COUNT).all())
        self._counts = dict.fromkeys(_UNSETTLED, 0) | {state: number for state, number in rows}

    async def count_forever(self) -> None:
        """Count now and then; runs until cancelled."""
        while True:
            await self.count()
            await pause(EVERY_SECONDS)

    def gauge(self) -> Gauge:
        def read() -> list[tuple[float, Labels]]:
            return [(number, {genai.STATE: state}) for state, number in self._counts.items()]

        return Gauge(figure=OPERATIONS_FIGURE, read=read)
