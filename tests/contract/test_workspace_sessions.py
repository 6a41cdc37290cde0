"""Sessions: one suite for the fake and for the real ones on both databases."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from minara_core.errors import Conflict, InvalidRequest, NotFound
from minara_core.events import FinishReason, TokenUsage
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Origin
from minara_runtime.audit_tables import AUDIT_RECORDS
from minara_runtime.audit_verifier import verify
from minara_runtime.database import Database
from minara_workspace.adapters.page_tokens import encode_token
from minara_workspace.adapters.sql_sessions import VERSIONS, SqlSessions
from minara_workspace.app.ports import Sessions
from minara_workspace.domain.session import FrozenBlocks, TurnState
from support.databases import Databases
from support.workspace_sessions import ME, START, a_record, a_session

SESSION = SessionId("session-1")
OTHER = UserId("somebody")
BLOCKS = FrozenBlocks(identity="# Who\r\n\u2028 한글", memory="m")


async def test_a_session_is_made_once(sessions: Sessions) -> None:
    made = await sessions.create(a_session(title="first"))
    later = START + timedelta(hours=1)
    assert await sessions.create(a_session(title="second", create_time=later)) == made
    assert await sessions.get(SESSION, ME) == made
    assert made.title == "first"


async def test_a_foreign_session_is_not_found_like_an_unknown_one(sessions: Sessions) -> None:
    await sessions.create(a_session())
    foreign = a_record(user_id=OTHER)
    for call in (
        lambda: sessions.create(a_session(user_id=OTHER)),
        lambda: sessions.get(SESSION, OTHER),
        lambda: sessions.get(SessionId("unknown"), ME),
        lambda: sessions.material(SESSION, OTHER),
        lambda: sessions.material(SessionId("unknown"), ME),
        lambda: sessions.commit(foreign, None),
        lambda: sessions.commit(a_record(session_id=SessionId("unknown")), None),
        lambda: sessions.list_turns(SESSION, OTHER, size=5, token=""),
    ):
        with pytest.raises(NotFound) as caught:
            await call()
        assert caught.value.reason is ErrorReason.SESSION_NOT_FOUND


async def test_a_new_session_has_no_material(sessions: Sessions) -> None:
    made = await sessions.create(a_session())
    material = await sessions.material(SESSION, ME)
    assert (material.session, material.blocks) == (made, None)
    assert (material.history, material.sent_blocks) == (b"", ())


async def test_a_commit_advances_the_session(sessions: Sessions) -> None:
    await sessions.create(a_session())
    recorded = await sessions.commit(a_record(message="price of\nBTC"), BLOCKS)
    assert recorded.is_new
    assert recorded.turn.turn_number == 1
    session = await sessions.get(SESSION, ME)
    assert session.title == "price of BTC"
    assert session.turn_count == 1
    assert session.latest_turn_id == "turn-1"
    assert session.latest_finish_reason is FinishReason.STOP
    assert session.update_time == recorded.turn.commit_time
    assert (await sessions.material(SESSION, ME)).blocks == BLOCKS


async def test_a_title_a_person_gave_stays(sessions: Sessions) -> None:
    await sessions.create(a_session(title="mine"))
    await sessions.commit(a_record(), None)
    assert (await sessions.get(SESSION, ME)).title == "mine"


async def test_the_first_commit_of_a_turn_stands(sessions: Sessions) -> None:
    await sessions.create(a_session())
    usage = TokenUsage(
        input_tokens=7, output_tokens=5, cache_read_tokens=3, cache_write_tokens=1,
        cost_usd=Decimal("0.0123"),
    )  # fmt: skip
    first = await sessions.commit(a_record(transcript=b"\x00\xff", usage=usage), BLOCKS)
    again = await sessions.commit(
        a_record(
            state=TurnState.FAILED,
            finish_reason=None,
            transcript=b"else",
            usage=TokenUsage(),
            sent_blocks=("x@1",),
        ),
        FrozenBlocks(identity="else", memory="else"),
    )
    assert not again.is_new
    assert again.turn == first.turn
    assert again.turn.usage == usage
    material = await sessions.material(SESSION, ME)
    assert material.history == b"\x00\xff"
    assert material.blocks == BLOCKS
    assert material.sent_blocks == ()
    assert material.session.turn_count == 1


async def test_a_repeated_commit_of_a_stale_writer_is_still_answered(sessions: Sessions) -> None:
    await sessions.create(a_session())
    first = await sessions.commit(a_record(epoch=1), None)
    await sessions.commit(a_record("turn-2", epoch=5), None)
    assert (await sessions.commit(a_record(epoch=1), None)).turn == first.turn


async def test_a_stale_writer_commits_nothing(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.commit(a_record(epoch=5), None)
    with pytest.raises(Conflict) as caught:
        await sessions.commit(a_record("turn-2", epoch=4, transcript=b"stale"), None)
    assert caught.value.reason is ErrorReason.EPOCH_STALE
    assert (await sessions.material(SESSION, ME)).history == b""
    assert (await sessions.commit(a_record("turn-3", epoch=5), None)).turn.turn_number == 2


async def test_a_turn_belongs_to_one_session(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.create(a_session("session-2"))
    await sessions.commit(a_record(), None)
    with pytest.raises(Conflict) as caught:
        await sessions.commit(a_record(session_id=SessionId("session-2")), None)
    assert caught.value.reason is ErrorReason.IDEMPOTENCY_KEY_REUSED
    assert (await sessions.get(SessionId("session-2"), ME)).turn_count == 0


async def test_blocks_are_frozen_once(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.commit(a_record(), BLOCKS)
    await sessions.commit(a_record("turn-2"), FrozenBlocks(identity="new", memory="new"))
    assert (await sessions.material(SESSION, ME)).blocks == BLOCKS


async def test_history_is_every_turn_in_order_also_failed_ones(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.create(a_session("session-2"))
    for number in range(12):
        failed = number == 3
        await sessions.commit(
            a_record(
                f"turn-{number}",
                transcript=bytes([number]),
                state=TurnState.FAILED if failed else TurnState.COMPLETED,
                finish_reason=None if failed else FinishReason.STOP,
                failure_reason="MODEL_UNAVAILABLE" if failed else "",
            ),
            None,
        )
        await sessions.commit(
            a_record(f"other-{number}", session_id=SessionId("session-2"), transcript=b"!"), None
        )
    assert (await sessions.material(SESSION, ME)).history == bytes(range(12))


async def test_sent_blocks_are_the_union_in_order(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.commit(a_record("turn-1", sent_blocks=("b@1", "a@1")), None)
    await sessions.commit(a_record("turn-2", sent_blocks=("a@1", "c@1")), None)
    assert (await sessions.material(SESSION, ME)).sent_blocks == ("b@1", "a@1", "c@1")


async def test_turns_are_listed_oldest_first_page_by_page(sessions: Sessions) -> None:
    await sessions.create(a_session())
    for number in range(1, 6):
        await sessions.commit(a_record(f"turn-{number}", origin=Origin.REPL), None)
    seen: list[tuple[TurnId, int]] = []
    token, pages = "", 0
    while True:
        page = await sessions.list_turns(SESSION, ME, size=2, token=token)
        assert len(page.turns) <= 2
        seen += [(turn.turn_id, turn.turn_number) for turn in page.turns]
        token, pages = page.next_token, pages + 1
        if not token:
            break
    assert seen == [(TurnId(f"turn-{number}"), number) for number in range(1, 6)]
    assert pages == 3


async def test_sessions_are_listed_most_recently_used_first(sessions: Sessions) -> None:
    for number in range(5):
        created = START + timedelta(seconds=number)
        await sessions.create(
            a_session(f"session-{number}", create_time=created, update_time=created)
        )
    await sessions.create(a_session("theirs", user_id=OTHER))
    await sessions.commit(a_record(session_id=SessionId("session-1")), None)
    seen: list[str] = []
    token = ""
    while True:
        page = await sessions.list_sessions(ME, size=2, token=token)
        seen += [session.session_id for session in page.sessions]
        token = page.next_token
        if not token:
            break
    assert sorted(seen) == [f"session-{number}" for number in range(5)]
    assert [name for name in seen if name != "session-1"] == [
        "session-4", "session-3", "session-2", "session-0",
    ]  # fmt: skip


async def test_sessions_of_one_moment_are_listed_once_each(sessions: Sessions) -> None:
    for number in range(5):
        await sessions.create(a_session(f"session-{number}"))
    first = await sessions.list_sessions(ME, size=3, token="")
    rest = await sessions.list_sessions(ME, size=3, token=first.next_token)
    names = [session.session_id for session in (*first.sessions, *rest.sessions)]
    assert names == [f"session-{number}" for number in (4, 3, 2, 1, 0)]
    assert rest.next_token == ""


@pytest.mark.parametrize("token", ["nonsense", "é", "WyJ4Il0=", "e30="])
async def test_a_foreign_page_token_is_refused(sessions: Sessions, token: str) -> None:
    await sessions.create(a_session())
    with pytest.raises(InvalidRequest):
        await sessions.list_sessions(ME, size=3, token=token)
    with pytest.raises(InvalidRequest):
        await sessions.list_turns(SESSION, ME, size=3, token=token)


@pytest.mark.parametrize(
    "token",
    [
        encode_token("no number", START),
        encode_token("9" * 30, START),
        encode_token("-1", START),
        encode_token("1", START.replace(tzinfo=None)),
    ],
)
async def test_a_page_token_made_up_of_our_parts_is_refused(
    sqlite_databases: Databases, token: str
) -> None:
    sessions = SqlSessions(await sqlite_databases.open(VERSIONS))
    await sessions.create(a_session())
    with pytest.raises(InvalidRequest):
        await sessions.list_turns(SESSION, ME, size=3, token=token)


async def test_the_heartbeat_of_each_person_is_of_their_newest_turn(sessions: Sessions) -> None:
    await sessions.create(a_session())
    await sessions.create(a_session("session-2"))
    await sessions.create(a_session("unused"))
    await sessions.create(a_session("theirs", user_id=OTHER))
    await sessions.commit(a_record("turn-1", session_id=SessionId("session-2")), None)
    newest = await sessions.commit(
        a_record("turn-2", origin=Origin.REPL, open_loops=("confirm action-1", "a question")), None
    )
    await sessions.commit(a_record("turn-3", session_id=SessionId("theirs"), user_id=OTHER), None)
    heartbeats = await sessions.latest_heartbeats()
    assert set(heartbeats) == {ME, OTHER}
    assert await sessions.latest_heartbeat(OTHER) == heartbeats[OTHER]
    assert await sessions.latest_heartbeat(ME) == heartbeats[ME]
    assert await sessions.latest_heartbeat(UserId("nobody")) is None
    mine = heartbeats[ME]
    assert mine.last_seen == newest.turn.commit_time
    assert (mine.session_id, mine.surface, mine.turn_count) == ("session-1", "repl", 1)
    assert mine.open_loops == ("confirm action-1", "a question")


def _audited(connection: sa.Connection) -> list[tuple[str, str, str]]:
    columns = (AUDIT_RECORDS.c.turn_id, AUDIT_RECORDS.c.subject, AUDIT_RECORDS.c.outcome)
    rows = connection.execute(sa.select(*columns).order_by(AUDIT_RECORDS.c.sequence))
    return [(row.turn_id, row.subject, row.outcome) for row in rows]


async def test_every_commit_is_audited_once_and_the_chain_holds(databases: Databases) -> None:
    database: Database = await databases.open(VERSIONS)
    sessions = SqlSessions(database)
    await sessions.create(a_session())
    await sessions.commit(a_record(), None)
    await sessions.commit(a_record(), None)
    failed = replace(a_record("turn-2"), state=TurnState.FAILED, finish_reason=None)
    await sessions.commit(failed, None)
    with pytest.raises(Conflict):
        await sessions.commit(a_record("turn-3", epoch=0), None)
    assert await database.read(_audited) == [
        ("turn-1", "turn_committed", "completed"),
        ("turn-2", "turn_committed", "failed"),
    ]
    assert await database.read(verify) == []


async def test_a_commit_that_cannot_be_audited_does_not_happen(databases: Databases) -> None:
    database = await databases.open(VERSIONS)
    sessions = SqlSessions(database)
    await sessions.create(a_session())
    await database.transaction(lambda c: c.execute(sa.text("DROP TABLE audit_records")))
    with pytest.raises(exc.DBAPIError):
        await sessions.commit(a_record(transcript=b"half"), BLOCKS)
    material = await sessions.material(SESSION, ME)
    assert (material.history, material.blocks) == (b"", None)
    assert material.session.turn_count == 0


async def test_two_processes_commit_one_turn_once(databases: Databases) -> None:
    url = await databases.url(VERSIONS)
    here, there = (SqlSessions(databases.reopen(url)) for _ in range(2))
    await here.create(a_session())
    async with asyncio.TaskGroup() as group:
        done = [group.create_task(each.commit(a_record(), None)) for each in (here, there) * 3]
    recorded = [task.result() for task in done]
    assert sum(each.is_new for each in recorded) == 1
    assert {each.turn for each in recorded} == {recorded[0].turn}
    assert (await here.get(SESSION, ME)).turn_count == 1
