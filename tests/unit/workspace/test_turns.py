"""PrepareTurn and CommitTurn over fakes: what is frozen, what is written, and what never is."""

import asyncio
import uuid

import pytest

from minara_core.errors import InvalidRequest, NotFound
from minara_core.events import FinishReason
from minara_core.ids import SessionId, TurnId, UserId
from minara_workspace.app.commit_turn import TurnCommit
from minara_workspace.app.heartbeats import Heartbeats
from minara_workspace.app.keep_sessions import MAX_PAGE_SIZE, SessionKeeper
from minara_workspace.app.prepare_turn import TurnMaterial, TurnPreparation
from minara_workspace.domain.heartbeat import Heartbeat
from minara_workspace.domain.session import CommittedTurn, TurnRecord, TurnState
from support.clock import FixedClock
from support.eventually import eventually
from support.workspace_documents import FakeDocuments
from support.workspace_sessions import ME, FakeSessions, FakeTokens, a_record, a_session

SESSION = SessionId("session-1")


class Killed(BaseException):
    """The process is gone."""


class Desk:
    """The use cases of one workspace over fakes."""

    def __init__(self, *, heartbeat: bool = True) -> None:
        self.documents = FakeDocuments()
        self.sessions = FakeSessions()
        self.tokens = FakeTokens()
        self.reported: list[OSError] = []
        self.observed: list[tuple[TurnId, int]] = []
        self.heartbeats = Heartbeats(
            self.documents,
            self.sessions,
            is_enabled=heartbeat,
            report=lambda user_id, error: self.reported.append(error),
        )
        self.preparation = TurnPreparation(self.sessions, self.documents, self.tokens)

    def write(self, name: str, text: str) -> None:
        self.documents.pages[(ME, name)] = text.encode()

    async def prepare(self, turn_id: str = "turn-1", user_id: UserId = ME) -> TurnMaterial:
        return await self.preparation.prepare(TurnId(turn_id), SESSION, user_id)

    async def commit(
        self, record: TurnRecord, token: str = "", *, dies: bool = False
    ) -> CommittedTurn:
        return await self.turn_commit(dies=dies).commit(record, token)

    def turn_commit(self, *, dies: bool = False) -> TurnCommit:
        def failpoint(name: str) -> None:
            if dies and name == "commit.recorded":
                raise Killed

        return TurnCommit(
            sessions=self.sessions,
            documents=self.documents,
            tokens=self.tokens,
            heartbeats=self.heartbeats,
            clock=FixedClock(),
            observe=lambda record, turn: self.observed.append((record.turn_id, turn.turn_number)),
            failpoint=failpoint,
        )


async def a_desk(*, heartbeat: bool = True) -> Desk:
    desk = Desk(heartbeat=heartbeat)
    await desk.sessions.create(a_session())
    return desk


async def test_preparing_reads_pages_and_writes_nothing() -> None:
    desk = await a_desk()
    desk.write("SOUL.md", "calm")
    desk.write("USER.md", "Ada")
    desk.write("BOOTSTRAP.md", "ask first")
    desk.write("HEARTBEAT.md", "- turn_count: 3")
    before = (dict(desk.documents.pages), desk.documents.writes, desk.sessions.writes)
    material = await desk.prepare()
    assert "calm" in material.blocks.identity
    assert "Ada" in material.blocks.memory
    assert material.bootstrap == "ask first"
    assert material.heartbeat == "- turn_count: 3"
    assert material.commit_token
    assert (desk.documents.pages, desk.documents.writes, desk.sessions.writes) == before


async def test_without_a_bootstrap_page_there_is_no_bootstrap_block() -> None:
    assert (await (await a_desk()).prepare()).bootstrap == ""


async def test_blocks_are_frozen_with_the_first_committed_turn() -> None:
    desk = await a_desk()
    desk.write("SOUL.md", "calm")
    first = await desk.prepare()
    await desk.commit(a_record(), first.commit_token)
    desk.write("SOUL.md", "changed")
    second = await desk.prepare("turn-2")
    assert second.blocks == first.blocks
    assert second.commit_token == ""
    assert second.turn_count == 1


async def test_a_refreshed_session_freezes_its_pages_anew_and_says_so_once() -> None:
    desk = await a_desk()
    desk.write("SOUL.md", "calm")
    await desk.commit(a_record(), (await desk.prepare()).commit_token)
    desk.write("SOUL.md", "changed")
    await desk.sessions.refresh(SESSION, ME)
    second = await desk.prepare("turn-2")
    assert "changed" in second.blocks.identity
    for each in (second, await desk.prepare("turn-2")):
        (notice,) = each.notices
        assert notice.startswith("the pages were read again (2026-")
    await desk.commit(a_record("turn-2"), second.commit_token)
    third = await desk.prepare("turn-3")
    assert third.notices == ()
    assert third.blocks.identity == second.blocks.identity
    assert third.commit_token == ""
    await desk.sessions.refresh(SESSION, ME)
    assert (await desk.prepare("turn-3")).notices not in ((), second.notices)


async def test_pages_that_a_turn_read_before_a_refresh_are_not_frozen() -> None:
    desk = await a_desk()
    desk.write("SOUL.md", "calm")
    first = await desk.prepare()
    await desk.sessions.refresh(SESSION, ME)
    await desk.commit(a_record(), first.commit_token)
    second = await desk.prepare("turn-2")
    desk.write("SOUL.md", "changed")
    await desk.sessions.refresh(SESSION, ME)
    await desk.commit(a_record("turn-2"), second.commit_token)
    third = await desk.prepare("turn-3")
    assert "changed" in third.blocks.identity
    await desk.commit(a_record("turn-3"), third.commit_token)
    assert (await desk.prepare("turn-4")).commit_token == ""


async def test_a_refresh_before_the_first_turn_is_nothing_to_tell() -> None:
    desk = await a_desk()
    await desk.sessions.refresh(SESSION, ME)
    assert (await desk.prepare()).notices == ()


async def test_a_session_that_was_never_refreshed_has_nothing_to_say() -> None:
    desk = await a_desk()
    assert (await desk.prepare()).notices == ()
    await desk.commit(a_record())  # of a process that died: no token, no frozen blocks
    assert (await desk.prepare("turn-2")).notices == ()


async def test_daily_logs_are_frozen_with_the_memory() -> None:
    desk = await a_desk()
    desk.write("memory/2026-11-30.md", "bought ETH")
    first = await desk.prepare()
    assert "bought ETH" in first.blocks.memory
    await desk.commit(a_record(), first.commit_token)
    desk.write("memory/2026-12-01.md", "sold ETH")
    assert (await desk.prepare("turn-2")).blocks == first.blocks


async def test_blocks_of_a_turn_that_was_never_committed_are_not_frozen() -> None:
    desk = await a_desk()
    desk.write("SOUL.md", "calm")
    await desk.prepare()
    desk.write("SOUL.md", "changed")
    assert "changed" in (await desk.prepare("turn-2")).blocks.identity


@pytest.mark.parametrize("state", [TurnState.CANCELLED, TurnState.FAILED])
async def test_only_a_completed_turn_consumes_what_it_was_offered(state: TurnState) -> None:
    desk = await a_desk()
    desk.write("SOUL.md", "calm")
    desk.write("BOOTSTRAP.md", "ask first")
    await desk.commit(a_record("turn-0"), (await desk.prepare("turn-0")).commit_token)
    await desk.sessions.refresh(SESSION, ME)
    first = await desk.prepare()
    ended = a_record(state=state, finish_reason=None, assistant_text="BOOTSTRAP_DONE")
    await desk.commit(ended, first.commit_token)
    second = await desk.prepare("turn-2")
    assert second.commit_token
    assert second.notices == first.notices != ()
    assert second.bootstrap == "ask first"
    assert second.turn_count == 2
    interrupted = a_record("turn-2", finish_reason=FinishReason.INTERRUPTED)
    await desk.commit(interrupted, second.commit_token)
    third = await desk.prepare("turn-3")
    assert (third.commit_token, third.notices) == ("", ())


async def test_every_post_turn_step_is_done_once_in_its_order() -> None:
    desk = await a_desk()
    assert [each.name for each in desk.turn_commit().post_turn] == [
        "conversation_record",
        "decision_capture",
        "workspace_state",
        "observability",
    ]
    decided = a_record(decided_action_id="action-1")
    for _ in range(2):
        await desk.commit(decided)
    assert desk.observed == [("turn-1", 1)]
    assert [one.decided_action_id for one in desk.sessions.decisions] == ["action-1"]


async def test_rows_are_there_before_anything_is_done_behind_them() -> None:
    desk = await a_desk()
    with pytest.raises(Killed):
        await desk.commit(a_record(decided_action_id="action-1"), dies=True)
    assert len(desk.sessions.decisions) == 1
    assert desk.observed == []


async def test_a_token_of_another_turn_commits_nothing() -> None:
    desk = await a_desk()
    material = await desk.prepare("turn-1")
    with pytest.raises(InvalidRequest):
        await desk.commit(a_record("turn-2"), material.commit_token)
    assert (await desk.sessions.get(SESSION, ME)).turn_count == 0


async def test_another_persons_session_is_not_found() -> None:
    desk = await a_desk()
    with pytest.raises(NotFound):
        await desk.prepare(user_id=UserId("somebody"))
    with pytest.raises(NotFound):
        await desk.commit(a_record(user_id=UserId("somebody")))


async def test_a_committed_turn_is_told_in_the_heartbeat() -> None:
    desk = await a_desk()
    await desk.commit(a_record(open_loops=("confirm action-1",)))
    await desk.heartbeats.write_waiting()
    page = desk.documents.pages[(ME, "HEARTBEAT.md")]
    assert b"- turn_count: 1\n" in page
    assert b"- confirm action-1\n" in page


async def test_a_repeated_commit_writes_no_file_again() -> None:
    desk = await a_desk()
    first = await desk.commit(a_record())
    await desk.heartbeats.write_waiting()
    writes = desk.documents.writes
    assert await desk.commit(a_record(message="something else")) == first
    await desk.heartbeats.write_waiting()
    assert desk.documents.writes == writes


async def test_a_switched_off_heartbeat_is_not_written() -> None:
    desk = await a_desk(heartbeat=False)
    await desk.commit(a_record())
    await desk.heartbeats.write_waiting()
    assert (ME, "HEARTBEAT.md") not in desk.documents.pages


async def test_a_start_makes_good_the_heartbeat_a_crash_left_out() -> None:
    desk = await a_desk()
    with pytest.raises(Killed):
        await desk.commit(a_record(), dies=True)
    await desk.heartbeats.write_waiting()
    assert (ME, "HEARTBEAT.md") not in desk.documents.pages
    job = asyncio.create_task(desk.heartbeats.write_forever())
    await eventually(lambda: (ME, "HEARTBEAT.md") in desk.documents.pages)
    job.cancel()
    await asyncio.wait([job])
    assert b"- turn_count: 1\n" in desk.documents.pages[(ME, "HEARTBEAT.md")]


async def test_a_heartbeat_that_cannot_be_written_is_reported_and_left() -> None:
    class FullDisk(FakeDocuments):
        async def write_heartbeat(self, user_id: UserId, heartbeat: Heartbeat) -> None:
            raise OSError("no space left")

    reported: list[UserId] = []
    heartbeats = Heartbeats(
        FullDisk(),
        FakeSessions(),
        is_enabled=True,
        report=lambda user, error: reported.append(user),
    )
    heartbeats.note(
        ME,
        Heartbeat(
            last_seen=FixedClock().now(),
            session_id="s",
            surface="repl",
            turn_count=1,
            open_loops=(),
        ),
    )
    await heartbeats.write_waiting()
    await heartbeats.write_waiting()
    assert reported == [ME]


async def test_of_two_replicas_the_newest_turn_stands_whoever_writes_last() -> None:
    desk = await a_desk()
    here, there = (
        Heartbeats(
            desk.documents,
            desk.sessions,
            is_enabled=True,
            is_shared=True,
            report=lambda user, error: None,
        )
        for _ in range(2)
    )
    for turn_id, replica in (("turn-1", here), ("turn-2", there)):
        await desk.commit(a_record(turn_id))
        newest = await desk.sessions.latest_heartbeat(ME)
        assert newest is not None
        replica.note(ME, newest)
    await there.write_waiting()
    await here.write_waiting()
    assert b"- turn_count: 2\n" in desk.documents.pages[(ME, "HEARTBEAT.md")]


async def test_the_bootstrap_page_is_put_aside_when_the_assistant_says_so() -> None:
    desk = await a_desk()
    desk.write("BOOTSTRAP.md", "ask first")
    await desk.commit(a_record("turn-1", message="BOOTSTRAP_DONE"))
    assert (ME, "BOOTSTRAP.md") in desk.documents.pages
    await desk.commit(a_record("turn-2", assistant_text="Written.\nBOOTSTRAP_DONE"))
    assert (ME, "BOOTSTRAP.md") not in desk.documents.pages
    assert desk.documents.pages[(ME, "BOOTSTRAP.md.done.20261130T120000Z")] == b"ask first"


def a_keeper(documents: FakeDocuments | None = None) -> SessionKeeper:
    return SessionKeeper(FakeSessions(), documents or FakeDocuments(), FixedClock())


async def test_a_session_is_made_once_and_seeds_the_persons_pages() -> None:
    documents = FakeDocuments()
    keeper = a_keeper(documents)
    request_id = str(uuid.UUID(int=1))
    first = await keeper.create(request_id, ME, "  a\n title ")
    assert first.title == "a title"
    assert await keeper.create(request_id, ME, "another") == first
    assert (ME, "SOUL.md") in documents.pages


async def test_an_id_that_is_no_uuid_makes_no_session() -> None:
    with pytest.raises(InvalidRequest):
        await a_keeper().create("session-1", ME, "")


async def test_another_persons_id_looks_unknown() -> None:
    keeper = a_keeper()
    request_id = str(uuid.UUID(int=1))
    await keeper.create(request_id, ME, "")
    with pytest.raises(NotFound):
        await keeper.create(request_id, UserId("somebody"), "")


@pytest.mark.parametrize("size", [-1, MAX_PAGE_SIZE + 1])
async def test_a_page_size_out_of_bounds_is_refused(size: int) -> None:
    with pytest.raises(InvalidRequest):
        await a_keeper().list_sessions(ME, size=size, token="")
