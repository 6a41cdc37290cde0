"""PrepareTurn of a compacted session, over every channel and on two replicas."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from minara.agent.v1 import message_pb2 as message_pb
from minara.type.v1 import decimal_pb2 as decimal_pb
from minara.workspace.v1 import context_service_pb2 as context_pb
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara_core.errors import InvalidRequest, NotFound
from minara_core.messages import context_message, user_message
from minara_runtime.convert import message_to_pb
from minara_workspace.settings import WorkspaceSettings
from support.channels import KINDS
from support.databases import Databases
from support.grants import an_installation
from support.workspace_caller import SESSION, Caller, a_caller


@pytest.fixture(params=KINDS)
async def caller(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Caller]:
    settings = WorkspaceSettings(data_dir=tmp_path / "data", workspace_dir=tmp_path / "pages")
    async with AsyncExitStack() as stack:
        yield await a_caller(stack, an_installation(), settings, request.param)


@pytest.fixture
async def replicas(databases: Databases, tmp_path: Path) -> AsyncGenerator[tuple[Caller, Caller]]:
    settings = WorkspaceSettings(
        data_dir=tmp_path / "data",
        workspace_dir=tmp_path / "pages",
        workspace_database_url=await databases.url(),
    )
    installation = an_installation()
    async with AsyncExitStack() as stack:
        here = await a_caller(stack, installation, settings, KINDS[0])
        yield here, await a_caller(stack, installation, settings, KINDS[0])


def a_compaction(through: int, *texts: str) -> context_pb.Compaction:
    """A boundary note and one kept turn for each text."""
    messages = [context_message("note"), *(user_message(text) for text in texts)]
    return context_pb.Compaction(
        history=[message_to_pb(message) for message in messages],
        parts=[
            context_pb.HistoryPart(message_count=1),
            *(context_pb.HistoryPart(turn_id=f"kept-{text}", message_count=1) for text in texts),
        ],
        through_turn_number=through,
        sent_blocks=["skill:a@1"],
        records=[context_pb.CompactionRecord(rung="summary", tokens_before=90, tokens_after=40)],
    )


def said(message: message_pb.Message) -> str:
    return "".join(block.text.text for block in message.blocks)


def parts(response: context_pb.PrepareTurnResponse) -> list[tuple[str, int]]:
    return [(part.turn_id, part.message_count) for part in response.history_parts]


async def test_a_history_says_which_messages_are_of_which_turn(caller: Caller) -> None:
    await caller.create()
    await caller.commit("turn-1", [user_message("a"), user_message("b")])
    await caller.commit("turn-2", [])
    await caller.commit("turn-3", [user_message("c")])
    prepared = await caller.prepare("turn-4")
    assert parts(prepared) == [("turn-1", 2), ("turn-2", 0), ("turn-3", 1)]


async def test_a_compaction_comes_back_before_the_turns_after_it(caller: Caller) -> None:
    await caller.create()
    for number in (1, 2):
        await caller.commit(f"turn-{number}", [user_message(f"said {number}")])
    await caller.commit(
        "turn-3",
        [user_message("said 3")],
        sent_blocks=["skill:b@1"],
        compaction=a_compaction(2, "two"),
    )
    prepared = await caller.prepare("turn-4")
    assert [said(message) for message in prepared.history] == ["note", "two", "said 3"]
    assert parts(prepared) == [("", 1), ("kept-two", 1), ("turn-3", 1)]
    assert list(prepared.sent_blocks) == ["skill:a@1", "skill:b@1"]
    listed = await caller.sessions.ListTurns(
        session_pb.ListTurnsRequest(session_id=SESSION), metadata=caller.grant()
    )
    assert [said(turn.messages[0]) for turn in listed.turns] == ["said 1", "said 2", "said 3"]


async def test_parts_that_do_not_cover_the_history_are_refused(caller: Caller) -> None:
    await caller.create()
    short = a_compaction(0, "one")
    del short.parts[0]
    negative = a_compaction(0, "one")
    negative.parts.add(message_count=-1)
    negative.parts.add(message_count=1)
    for compaction in (short, negative, a_compaction(1, "one")):
        with pytest.raises(InvalidRequest):
            await caller.commit("turn-1", [], compaction=compaction)
    assert (await caller.prepare()).turn_count == 0


async def test_a_sessions_costs_of_the_day_come_with_it(caller: Caller) -> None:
    await caller.create()
    assert (await caller.prepare()).spent_today_usd.value == "0"
    for number, cost in enumerate(("0.10", "0.2")):
        request = context_pb.CommitTurnRequest()
        request.usage.cost_usd.CopyFrom(decimal_pb.Decimal(value=cost))
        await caller.commit(f"turn-{number}", [], usage=request.usage)
    assert (await caller.prepare("turn-9")).spent_today_usd.value == "0.3"


async def test_a_refreshed_session_reads_its_pages_again(caller: Caller, tmp_path: Path) -> None:
    await caller.create()
    prepared = await caller.prepare()
    await caller.commit("turn-1", [], token=prepared.commit_token)
    (tmp_path / "pages" / "SOUL.md").write_text("quite another", "utf-8")
    assert (await caller.prepare("turn-2")).identity_block == prepared.identity_block
    request = session_pb.RefreshSessionRequest(session_id=SESSION)
    with pytest.raises(NotFound):
        await caller.sessions.RefreshSession(request, metadata=caller.grant(user_id="somebody"))
    await caller.sessions.RefreshSession(request, metadata=caller.grant())
    renewed = await caller.prepare("turn-2")
    assert "quite another" in renewed.identity_block
    (notice,) = renewed.notices
    assert notice.startswith("the pages were read again (")
    await caller.commit("turn-2", [], token=renewed.commit_token)
    assert list((await caller.prepare("turn-3")).notices) == []


async def test_a_refresh_while_a_turn_is_under_way_is_not_lost(
    caller: Caller, tmp_path: Path
) -> None:
    await caller.create()
    request = session_pb.RefreshSessionRequest(session_id=SESSION)
    for number in (1, 2):
        prepared = await caller.prepare(f"turn-{number}")
        (tmp_path / "pages" / "SOUL.md").write_text(f"soul {number}", "utf-8")
        await caller.sessions.RefreshSession(request, metadata=caller.grant())
        await caller.commit(f"turn-{number}", [], token=prepared.commit_token)
        after = await caller.prepare(f"turn-{number + 1}")
        assert f"soul {number}" in after.identity_block
        assert len(after.notices) == 1


async def test_two_replicas_prepare_the_same_bytes(
    replicas: tuple[Caller, Caller], tmp_path: Path
) -> None:
    here, there = replicas
    await here.create()
    (tmp_path / "pages" / "memory").mkdir(exist_ok=True)
    (tmp_path / "pages" / "memory" / "2026-11-30.md").write_text("a long day", "utf-8")
    first = await there.prepare()
    assert "a long day" in first.memory_block
    assert first.SerializeToString() == (await here.prepare()).SerializeToString()
    await here.commit("turn-1", [user_message("said 1")], token=first.commit_token)
    await there.commit("turn-2", [user_message("said 2")], compaction=a_compaction(1, "one"))
    # Who writes the heartbeat last, and when, is no part of what was said.
    answers = [await each.prepare("turn-3") for each in (here, there)]
    for answer in answers:
        answer.ClearField("heartbeat")
    prepared = [answer.SerializeToString() for answer in answers]
    assert prepared[0] == prepared[1]
    assert b"said 2" in prepared[0]
