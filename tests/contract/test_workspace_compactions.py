"""Compactions and refreshes of sessions: one suite for the fake and the real ones."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
import sqlalchemy as sa

from minara_core.errors import Conflict, InvalidRequest, NotFound
from minara_core.events import TokenUsage
from minara_core.ids import SessionId, UserId
from minara_core.reasons import ErrorReason
from minara_runtime.audit_tables import AUDIT_RECORDS
from minara_runtime.audit_verifier import verify
from minara_runtime.statements import database_time
from minara_workspace.adapters.sql_sessions import VERSIONS, SqlSessions
from minara_workspace.adapters.sql_tables import TURNS
from minara_workspace.app.ports import Sessions
from minara_workspace.domain.session import FrozenBlocks, TurnState
from support.databases import Databases
from support.workspace_sessions import ME, a_compaction, a_record, a_session

SESSION = SessionId("session-1")
OTHER = UserId("somebody")
BLOCKS = FrozenBlocks(identity="who", memory="what")


async def with_turns(sessions: Sessions, count: int) -> None:
    """A session of `count` turns whose transcripts are their numbers."""
    await sessions.create(a_session())
    for number in range(1, count + 1):
        await sessions.commit(
            a_record(
                f"turn-{number}", transcript=b"%d" % number, sent_blocks=(f"block-{number}@1",)
            ),
            None,
        )


async def history(sessions: Sessions) -> bytes:
    return (await sessions.material(SESSION, ME)).history


async def test_a_compaction_stands_for_the_turns_before_the_one_that_made_it(
    sessions: Sessions,
) -> None:
    await with_turns(sessions, 3)
    await sessions.commit(
        a_record(
            "turn-4",
            transcript=b"4",
            sent_blocks=("new@1",),
            compaction=a_compaction(3, b"[1-3]", sent_blocks=("kept@1",)),
        ),
        None,
    )
    await sessions.commit(a_record("turn-5", transcript=b"5"), None)
    material = await sessions.material(SESSION, ME)
    assert material.history == b"[1-3]45"
    assert material.sent_blocks == ("kept@1", "new@1")
    assert material.session.turn_count == 5


async def test_turns_are_listed_whole_whatever_was_compacted(sessions: Sessions) -> None:
    await with_turns(sessions, 3)
    await sessions.commit(
        a_record("turn-4", transcript=b"4", compaction=a_compaction(3, b"[1-3]")), None
    )
    page = await sessions.list_turns(SESSION, ME, size=10, token="")
    assert [turn.transcript for turn in page.turns] == [b"1", b"2", b"3", b"4"]


async def test_a_failed_turn_leaves_its_compaction_too(sessions: Sessions) -> None:
    await with_turns(sessions, 2)
    failed = a_record(
        "turn-3",
        transcript=b"3",
        state=TurnState.FAILED,
        finish_reason=None,
        compaction=a_compaction(2, b"[1-2]"),
    )
    await sessions.commit(failed, None)
    assert await history(sessions) == b"[1-2]3"


async def test_a_later_compaction_replaces_the_one_before(sessions: Sessions) -> None:
    await with_turns(sessions, 2)
    await sessions.commit(
        a_record("turn-3", transcript=b"3", compaction=a_compaction(2, b"[1-2]")), None
    )
    await sessions.commit(
        a_record("turn-4", transcript=b"4", compaction=a_compaction(3, b"[1-3]")), None
    )
    assert await history(sessions) == b"[1-3]4"


async def test_a_compaction_of_fewer_turns_than_what_stands_is_not_applied(
    sessions: Sessions,
) -> None:
    await with_turns(sessions, 3)
    await sessions.commit(
        a_record(
            "turn-4",
            transcript=b"4",
            compaction=a_compaction(3, b"[1-3]", sent_blocks=("kept@1",)),
        ),
        None,
    )
    late = a_record(
        "turn-5",
        transcript=b"5",
        sent_blocks=("late@1",),
        compaction=a_compaction(2, b"[1-2]", sent_blocks=("gone@1",)),
    )
    assert (await sessions.commit(late, None)).turn.turn_number == 5
    material = await sessions.material(SESSION, ME)
    assert material.history == b"[1-3]45"
    assert material.sent_blocks == ("kept@1", "late@1")


async def test_a_repeated_commit_compacts_nothing_again(sessions: Sessions) -> None:
    await with_turns(sessions, 2)
    compacted = a_record("turn-3", transcript=b"3", compaction=a_compaction(2, b"[1-2]"))
    first = await sessions.commit(compacted, None)
    await sessions.commit(a_record("turn-4", transcript=b"4"), None)
    again = await sessions.commit(
        a_record("turn-3", transcript=b"x", compaction=a_compaction(2, b"else")), None
    )
    assert again.turn == first.turn
    assert await history(sessions) == b"[1-2]34"


async def test_a_stale_writer_compacts_nothing(sessions: Sessions) -> None:
    await with_turns(sessions, 1)
    await sessions.commit(a_record("turn-2", epoch=5, transcript=b"2"), None)
    with pytest.raises(Conflict) as caught:
        await sessions.commit(a_record("turn-3", epoch=4, compaction=a_compaction(2)), None)
    assert caught.value.reason is ErrorReason.EPOCH_STALE
    assert await history(sessions) == b"12"


@pytest.mark.parametrize("through", [-1, 3])
async def test_turns_that_do_not_exist_are_not_compacted(sessions: Sessions, through: int) -> None:
    await with_turns(sessions, 2)
    with pytest.raises(InvalidRequest):
        await sessions.commit(
            a_record("turn-3", transcript=b"3", compaction=a_compaction(through)), None
        )
    material = await sessions.material(SESSION, ME)
    assert (material.history, material.session.turn_count) == (b"12", 2)


async def test_a_refreshed_session_has_no_frozen_blocks_until_new_ones_come(
    sessions: Sessions,
) -> None:
    await sessions.create(a_session())
    await sessions.commit(a_record(), BLOCKS)
    for _ in range(2):
        await sessions.refresh(SESSION, ME)
        material = await sessions.material(SESSION, ME)
        assert material.blocks is None
        assert material.refresh_time is not None
    await sessions.commit(a_record("turn-2"), None)
    waiting = (await sessions.material(SESSION, ME)).refresh_time
    assert waiting is not None
    renewed = FrozenBlocks(identity="new", memory="new")
    await sessions.commit(a_record("turn-3"), replace(renewed, refresh_time=waiting))
    material = await sessions.material(SESSION, ME)
    assert (material.blocks, material.refresh_time) == (renewed, None)


async def test_blocks_that_were_read_before_a_refresh_are_not_frozen(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.refresh(SESSION, ME)
    await sessions.commit(a_record(), BLOCKS)
    first = await sessions.material(SESSION, ME)
    assert first.blocks is None
    await sessions.refresh(SESSION, ME)
    await sessions.commit(a_record("turn-2"), replace(BLOCKS, refresh_time=first.refresh_time))
    second = await sessions.material(SESSION, ME)
    assert second.blocks is None
    assert second.refresh_time != first.refresh_time
    await sessions.commit(a_record("turn-3"), replace(BLOCKS, refresh_time=second.refresh_time))
    assert (await sessions.material(SESSION, ME)).blocks == BLOCKS
    await sessions.commit(a_record("turn-4"), FrozenBlocks(identity="late", memory="late"))
    assert (await sessions.material(SESSION, ME)).blocks == BLOCKS


async def test_a_foreign_session_is_not_refreshed(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.commit(a_record(), BLOCKS)
    for session_id, user_id in ((SESSION, OTHER), (SessionId("unknown"), ME)):
        with pytest.raises(NotFound) as caught:
            await sessions.refresh(session_id, user_id)
        assert caught.value.reason is ErrorReason.SESSION_NOT_FOUND
    assert (await sessions.material(SESSION, ME)).blocks == BLOCKS


async def test_known_costs_of_a_sessions_day_are_summed_exactly(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.create(a_session("session-2"))
    assert (await sessions.material(SESSION, ME)).spent_today_usd == 0
    for number, cost in enumerate(("0.1", "0.2", None)):
        usage = TokenUsage(cost_usd=None if cost is None else Decimal(cost))
        await sessions.commit(a_record(f"turn-{number}", usage=usage), None)
    theirs = TokenUsage(cost_usd=Decimal(7))
    await sessions.commit(
        a_record("elsewhere", session_id=SessionId("session-2"), usage=theirs), None
    )
    assert (await sessions.material(SESSION, ME)).spent_today_usd == Decimal("0.3")


async def test_costs_of_days_before_do_not_count(databases: Databases) -> None:
    database = await databases.open(VERSIONS)
    sessions = SqlSessions(database)
    await sessions.create(a_session())
    usage = TokenUsage(cost_usd=Decimal("0.25"))
    for number in range(2):
        await sessions.commit(a_record(f"turn-{number}", usage=usage), None)

    def a_day_earlier(connection: sa.Connection) -> None:
        before = database_time(connection) - timedelta(days=1)
        change = sa.update(TURNS).where(TURNS.c.turn_id == "turn-0").values(commit_time=before)
        connection.execute(change)

    await database.transaction(a_day_earlier)
    assert (await sessions.material(SESSION, ME)).spent_today_usd == Decimal("0.25")


async def test_a_refresh_is_audited_once_and_the_chain_holds(databases: Databases) -> None:
    database = await databases.open(VERSIONS)
    sessions = SqlSessions(database)
    await sessions.create(a_session())
    await sessions.commit(a_record(), BLOCKS)
    for _ in range(2):
        await sessions.refresh(SESSION, ME)
    rows = sa.select(AUDIT_RECORDS.c.subject).order_by(AUDIT_RECORDS.c.sequence)
    subjects = await database.read(lambda c: list(c.execute(rows).scalars()))
    assert subjects == ["turn_committed", "session_refreshed"]
    assert await database.read(verify) == []


async def test_a_compacted_history_is_the_same_on_every_replica(databases: Databases) -> None:
    url = await databases.url(VERSIONS)
    here, there = (SqlSessions(databases.reopen(url)) for _ in range(2))
    await with_turns(here, 3)
    await there.commit(
        a_record("turn-4", transcript=b"4", compaction=a_compaction(3, b"[1-3]")), None
    )
    await here.commit(a_record("turn-5", transcript=b"5"), None)
    assert await here.material(SESSION, ME) == await there.material(SESSION, ME)
    assert await history(here) == b"[1-3]45"
