"""Whatever CommitTurn accepts can be prepared, and be read by who prepares it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from minara.agent.v1 import message_pb2 as message_pb
from minara.workspace.v1 import context_service_pb2 as context_pb
from minara_core.errors import InvalidRequest
from minara_core.messages import Message, Role, TextBlock, context_message, user_message
from minara_runtime.convert import message_to_pb
from minara_runtime.limits import MAX_MESSAGE_BYTES
from minara_workspace.adapters.stored_history import TOO_LONG_NOTICE
from minara_workspace.settings import WorkspaceSettings
from support.channels import KINDS
from support.grants import an_installation
from support.workspace_caller import Caller, a_caller

MIB = 1024 * 1024


@pytest.fixture(params=KINDS)
async def caller(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Caller]:
    settings = WorkspaceSettings(data_dir=tmp_path / "data", workspace_dir=tmp_path / "pages")
    async with AsyncExitStack() as stack:
        made = await a_caller(stack, an_installation(), settings, request.param)
        await made.create()
        yield made


def said(text: str, state: str = "") -> Message:
    return Message(role=Role.ASSISTANT, blocks=(TextBlock(text),), provider_state=state)


async def test_a_session_full_of_what_providers_keep_goes_on_without_the_oldest_of_it(
    caller: Caller,
) -> None:
    turns = [f"turn-{number}" for number in range(11)]
    for turn_id in turns:
        await caller.commit(turn_id, [user_message("hi"), said(turn_id, "x" * MIB)])
    prepared = await caller.prepare("turn-now")
    assert prepared.ByteSize() <= MAX_MESSAGE_BYTES
    answers = [message for message in prepared.history if message.role == message_pb.ROLE_ASSISTANT]
    assert [message.blocks[0].text.text for message in answers] == turns
    has_state = [bool(message.provider_state) for message in answers]
    assert has_state == sorted(has_state)
    assert has_state[-6:] == [True] * 6
    assert list(prepared.notices) == []


async def test_turns_that_are_too_large_in_all_go_oldest_first_and_their_blocks_are_sent_again(
    caller: Caller,
) -> None:
    note = context_pb.Compaction(
        history=[message_to_pb(context_message("note"))],
        parts=[context_pb.HistoryPart(message_count=1)],
    )
    for number in range(4):
        text = "以" * MIB
        compaction = None if number else note
        await caller.commit(
            f"turn-{number}", [said(text)], sent_blocks=["skill:a@1"], compaction=compaction
        )
    prepared = await caller.prepare("turn-now")
    assert prepared.ByteSize() <= MAX_MESSAGE_BYTES
    parts = [(part.turn_id, part.message_count) for part in prepared.history_parts]
    assert parts == [("", 1), ("turn-2", 1), ("turn-3", 1)]
    assert len(prepared.history) == 3
    assert list(prepared.sent_blocks) == []
    assert list(prepared.notices) == [TOO_LONG_NOTICE]
    assert prepared.turn_count == 4


async def test_one_turn_as_large_as_a_message_may_be_does_not_end_its_session(
    caller: Caller,
) -> None:
    await caller.commit("turn-1", [said("x" * (MAX_MESSAGE_BYTES - 4_096))])
    assert list((await caller.prepare("turn-2")).history) == []


@pytest.mark.parametrize("form", [b"", b"\x08\x63", b"\x08\x02\x12\x00"])
async def test_a_message_that_could_not_be_read_back_is_refused(
    caller: Caller, form: bytes
) -> None:
    """Its role is not set, or not known, or one of its blocks has no kind."""
    unreadable = message_pb.Message.FromString(form)
    compaction = context_pb.Compaction(
        history=[unreadable], parts=[context_pb.HistoryPart(message_count=1)]
    )
    said_so = context_pb.CommitTurnRequest(
        context=caller.turn(),
        state=context_pb.TURN_STATE_FAILED,
        message="price of BTC",
        messages=[unreadable],
    )
    with pytest.raises(InvalidRequest):
        await caller.contexts.CommitTurn(said_so)
    with pytest.raises(InvalidRequest):
        await caller.commit("turn-1", [], compaction=compaction)
    assert (await caller.prepare()).turn_count == 0
