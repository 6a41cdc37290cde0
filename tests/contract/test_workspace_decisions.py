"""Decisions of turns, over both databases: written once, with their turn, and gone with its
session."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from minara_core.errors import Conflict
from minara_core.ids import SessionId
from minara_runtime.database import Database
from minara_workspace.adapters.sql_sessions import VERSIONS, SqlSessions
from minara_workspace.adapters.sql_tables import DECISIONS, SESSIONS
from minara_workspace.domain.decisions import Decision
from minara_workspace.domain.session import TurnRecord
from support.databases import Databases
from support.workspace_sessions import a_record, a_session


@dataclass(frozen=True)
class Books:
    database: Database
    sessions: SqlSessions

    async def decisions(self) -> Sequence[Any]:
        statement = sa.select(DECISIONS).order_by(DECISIONS.c.turn_id)
        return await self.database.read(lambda c: c.execute(statement).all())


@pytest.fixture
async def books(databases: Databases) -> Books:
    database = await databases.open(VERSIONS)
    made = Books(database, SqlSessions(database))
    await made.sessions.create(a_session())
    return made


def a_decision(record: TurnRecord, summary: str = "buy_token buy ETH/USDC: done") -> Decision:
    return Decision(
        turn_id=record.turn_id,
        session_id=record.session_id,
        user_id=record.user_id,
        decided_action_id="action-1",
        parked_action_ids=("action-2",),
        tool_names=("get_price", "buy_token"),
        message="buy \u4ee5\u592a\u574a",
        summary=summary,
    )


async def test_a_decision_is_kept_with_the_time_of_its_turn(books: Books) -> None:
    record = a_record()
    recorded = await books.sessions.commit(record, None, a_decision(record))
    (row,) = await books.decisions()
    assert (row.turn_id, row.session_id, row.user_id) == ("turn-1", "session-1", "local")
    assert row.decided_action_id == "action-1"
    assert json.loads(row.parked_action_ids) == ["action-2"]
    assert json.loads(row.tool_names) == ["get_price", "buy_token"]
    assert (row.message, row.summary) == ("buy 以太坊", "buy_token buy ETH/USDC: done")
    assert row.time == recorded.turn.commit_time


async def test_the_first_commit_of_a_turn_says_what_was_decided(books: Books) -> None:
    record = a_record()
    await books.sessions.commit(record, None, a_decision(record))
    await books.sessions.commit(record, None, a_decision(record, "something else"))
    (row,) = await books.decisions()
    assert row.summary == "buy_token buy ETH/USDC: done"
    await books.sessions.commit(a_record("turn-2"), None)
    later = a_record("turn-2")
    await books.sessions.commit(later, None, a_decision(later))
    assert len(await books.decisions()) == 1


async def test_a_turn_that_is_not_recorded_decides_nothing(books: Books) -> None:
    await books.sessions.commit(a_record(epoch=5), None)
    stale = a_record("turn-2", epoch=4)
    with pytest.raises(Conflict):
        await books.sessions.commit(stale, None, a_decision(stale))
    assert not await books.decisions()


async def test_decisions_are_erased_with_their_session(books: Books) -> None:
    await books.sessions.create(a_session("session-2"))
    for name in ("session-1", "session-2"):
        record = a_record(f"turn of {name}", session_id=SessionId(name))
        await books.sessions.commit(record, None, a_decision(record))
    erase = sa.delete(SESSIONS).where(SESSIONS.c.session_id == "session-1")
    await books.database.transaction(lambda c: c.execute(erase))
    (row,) = await books.decisions()
    assert row.session_id == "session-2"
