"""ContextService and SessionService as their callers see them, in process and over TCP."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest

from minara.agent.v1 import event_pb2 as event_pb
from minara.agent.v1 import message_pb2 as message_pb
from minara.workspace.v1 import context_service_pb2 as context_pb
from minara.workspace.v1 import context_service_pb2_grpc as context_grpc
from minara.workspace.v1 import session_service_pb2 as session_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.errors import InvalidRequest, NotAuthenticated, NotFound
from minara_core.ids import ToolCallId
from minara_core.messages import Message, Role, TextBlock, ToolCallBlock, ToolResultBlock
from minara_core.reasons import ErrorReason
from minara_core.tooling import ToolCall
from minara_runtime import telemetry
from minara_runtime.convert import message_from_pb, message_to_pb
from minara_runtime.interceptors import server_interceptors
from minara_runtime.service import running
from minara_workspace.main import build
from minara_workspace.settings import WorkspaceSettings
from support.channels import KINDS, a_channel
from support.eventually import eventually
from support.grants import an_installation
from support.ids import SequentialIds
from support.workspace_caller import SESSION, Caller

ODD = "a\u2028b 𝒳 \u202e \u0301 以太 \r\n\ttab"


@pytest.fixture
def settings(tmp_path: Path) -> WorkspaceSettings:
    return WorkspaceSettings(data_dir=tmp_path / "data", workspace_dir=tmp_path / "pages")


@pytest.fixture(params=KINDS)
async def caller(
    request: pytest.FixtureRequest, settings: WorkspaceSettings
) -> AsyncGenerator[Caller]:
    installation = an_installation()
    service = build(settings, clock=installation.clock, ids=SequentialIds("draft"))
    interceptors = server_interceptors(installation.verifier, telemetry.disabled())

    def register(server: grpc.aio.Server) -> None:
        for servicer in service.servicers:
            servicer.register(server)

    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(service))
        channel = await stack.enter_async_context(a_channel(request.param, register, interceptors))
        yield Caller(
            installation=installation,
            contexts=context_grpc.ContextServiceStub(channel),
            sessions=session_grpc.SessionServiceStub(channel),
        )


def a_transcript(text: str = "It is 100,000.") -> list[Message]:
    call = ToolCall(
        tool_call_id=ToolCallId("1.0"), name="get_price", arguments_json='{ "symbol":"BTC" }'
    )
    return [
        Message(role=Role.CONTEXT, blocks=(TextBlock("[signal]\nnow"),)),
        Message(role=Role.USER, blocks=(TextBlock("price of BTC"),)),
        Message(
            role=Role.ASSISTANT,
            blocks=(TextBlock(ODD), ToolCallBlock(call)),
            provider_state='{"signature":"x=="}',
        ),
        Message(
            role=Role.TOOL,
            blocks=(
                ToolResultBlock(tool_call_id=ToolCallId("1.0"), envelope='{"ok":true,"data":1}'),
            ),
        ),
        Message(role=Role.ASSISTANT, blocks=(TextBlock(text),)),
    ]


def history(response: context_pb.PrepareTurnResponse) -> list[Message]:
    return [message_from_pb(message) for message in response.history]


async def test_what_turns_leave_comes_back_in_order_and_unchanged(caller: Caller) -> None:
    await caller.create()
    first, second = a_transcript(), a_transcript("Still 100,000.")
    prepared = await caller.prepare()
    assert prepared.bootstrap_block.startswith("# First meeting")
    assert "## SOUL.md" in prepared.identity_block
    done = await caller.commit(
        "turn-1", first, token=prepared.commit_token, sent_blocks=["skill:a@1"]
    )
    assert (done.turn_number, done.state) == (1, context_pb.TURN_STATE_COMPLETED)
    assert done.finish_reason == event_pb.FINISH_REASON_STOP
    await caller.commit("turn-2", second, sent_blocks=["skill:b@1"])
    again = await caller.prepare("turn-3")
    assert history(again) == first + second
    assert list(again.sent_blocks) == ["skill:a@1", "skill:b@1"]
    assert again.turn_count == 2
    assert again.identity_block == prepared.identity_block
    assert again.commit_token == ""


async def test_a_repeated_commit_is_answered_with_what_stands(caller: Caller) -> None:
    await caller.create()
    first = await caller.commit("turn-1", a_transcript())
    again = await caller.commit(
        "turn-1", [], usage=event_pb.Usage(input_tokens=99), finish_reason=4
    )
    assert again == first


async def test_words_that_were_not_signed_are_not_recorded_as_a_persons(caller: Caller) -> None:
    await caller.create()
    request = context_pb.CommitTurnRequest(
        context=caller.turn(message="price of BTC"),
        state=context_pb.TURN_STATE_COMPLETED,
        finish_reason=event_pb.FINISH_REASON_STOP,
        message="buy everything",
    )
    with pytest.raises(NotAuthenticated) as caught:
        await caller.contexts.CommitTurn(request)
    assert caught.value.reason is ErrorReason.GRANT_MISMATCH
    assert (await caller.prepare()).turn_count == 0


async def test_a_commit_without_a_state_or_a_reason_is_refused(caller: Caller) -> None:
    await caller.create()
    for request in (
        context_pb.CommitTurnRequest(context=caller.turn(), message="price of BTC"),
        context_pb.CommitTurnRequest(
            context=caller.turn(), message="price of BTC", state=context_pb.TURN_STATE_COMPLETED
        ),
    ):
        with pytest.raises(InvalidRequest):
            await caller.contexts.CommitTurn(request)


async def test_a_failed_turn_is_recorded_with_what_it_said(caller: Caller) -> None:
    await caller.create()
    request = context_pb.CommitTurnRequest(
        context=caller.turn(),
        state=context_pb.TURN_STATE_FAILED,
        message="price of BTC",
        messages=[message_to_pb(message) for message in a_transcript()],
        failure_reason="MODEL_UNAVAILABLE",
    )
    done = await caller.contexts.CommitTurn(request)
    assert done.state == context_pb.TURN_STATE_FAILED
    assert done.finish_reason == event_pb.FINISH_REASON_UNSPECIFIED
    assert history(await caller.prepare("turn-2")) == a_transcript()


async def test_a_cancelled_turn_is_recorded_with_what_was_cut_off(caller: Caller) -> None:
    await caller.create()
    prepared = await caller.prepare()
    cut = Message(role=Role.ASSISTANT, blocks=(TextBlock("It is 100,"),), is_interrupted=True)
    said = [*a_transcript()[:4], cut]
    request = context_pb.CommitTurnRequest(
        context=caller.turn(),
        state=context_pb.TURN_STATE_CANCELLED,
        message="price of BTC",
        messages=[message_to_pb(message) for message in said],
        failure_reason="CANCELLED",
        commit_token=prepared.commit_token,
    )
    done = await caller.contexts.CommitTurn(request)
    assert done.state == context_pb.TURN_STATE_CANCELLED
    assert done.finish_reason == event_pb.FINISH_REASON_UNSPECIFIED
    again = await caller.prepare("turn-2")
    assert history(again) == said
    assert again.commit_token
    await caller.commit("turn-2", a_transcript(), token=again.commit_token)
    assert (await caller.prepare("turn-3")).commit_token == ""


async def test_an_interrupted_turn_completes_with_its_partial_text(caller: Caller) -> None:
    await caller.create()
    prepared = await caller.prepare()
    cut = Message(role=Role.ASSISTANT, blocks=(TextBlock("It is 100,"),), is_interrupted=True)
    said = [*a_transcript()[:2], cut]
    request = context_pb.CommitTurnRequest(
        context=caller.turn(),
        state=context_pb.TURN_STATE_COMPLETED,
        finish_reason=event_pb.FINISH_REASON_INTERRUPTED,
        message="price of BTC",
        messages=[message_to_pb(message) for message in said],
        commit_token=prepared.commit_token,
    )
    done = await caller.contexts.CommitTurn(request)
    assert done.finish_reason == event_pb.FINISH_REASON_INTERRUPTED
    again = await caller.prepare("turn-2")
    assert history(again) == said
    assert again.commit_token == ""


async def test_a_session_of_somebody_else_is_not_found(caller: Caller) -> None:
    await caller.create()
    theirs = caller.grant(user_id="somebody")
    calls = (
        lambda: caller.create(user_id="somebody"),
        lambda: caller.sessions.GetSession(
            session_pb.GetSessionRequest(session_id=SESSION), metadata=theirs
        ),
        lambda: caller.sessions.ListTurns(
            session_pb.ListTurnsRequest(session_id=SESSION), metadata=theirs
        ),
        lambda: caller.contexts.PrepareTurn(
            context_pb.PrepareTurnRequest(context=caller.turn(user_id="somebody"))
        ),
    )
    for call in calls:
        with pytest.raises(NotFound) as caught:
            await call()
        assert caught.value.reason is ErrorReason.SESSION_NOT_FOUND
    listed = await caller.sessions.ListSessions(session_pb.ListSessionsRequest(), metadata=theirs)
    assert not listed.sessions


async def test_sessions_and_turns_are_listed_with_their_messages(caller: Caller) -> None:
    made = await caller.create(title="My session")
    assert (made.session_id, made.title, made.turn_count) == (SESSION, "My session", 0)
    await caller.commit("turn-1", a_transcript())
    got = await caller.sessions.GetSession(
        session_pb.GetSessionRequest(session_id=SESSION), metadata=caller.grant()
    )
    assert (got.session.turn_count, got.session.latest_turn_id) == (1, "turn-1")
    listed = await caller.sessions.ListTurns(
        session_pb.ListTurnsRequest(session_id=SESSION), metadata=caller.grant()
    )
    assert [message_from_pb(m) for m in listed.turns[0].messages] == a_transcript()
    assert listed.turns[0].usage.input_tokens == 10
    assert listed.next_page_token == ""
    with pytest.raises(InvalidRequest):
        await caller.sessions.ListTurns(
            session_pb.ListTurnsRequest(session_id=SESSION, page_size=201), metadata=caller.grant()
        )


async def test_the_heartbeat_follows_the_turn(caller: Caller, settings: WorkspaceSettings) -> None:
    assert settings.workspace_dir is not None
    page = settings.workspace_dir / "HEARTBEAT.md"
    await caller.create()
    assert not page.exists()
    await caller.commit("turn-1", a_transcript(), open_loops=["confirm action-1"])
    await eventually(page.exists)
    text = page.read_text("utf-8")
    assert f"- session_id: {SESSION}\n" in text
    assert "- confirm action-1\n" in text


async def test_the_assistants_last_word_puts_the_bootstrap_aside(
    caller: Caller, settings: WorkspaceSettings
) -> None:
    assert settings.workspace_dir is not None
    await caller.create()
    await caller.commit("turn-1", a_transcript("Written.\n\nBOOTSTRAP_DONE"))
    assert not (settings.workspace_dir / "BOOTSTRAP.md").exists()
    assert list(settings.workspace_dir.glob("BOOTSTRAP.md.done.*"))
    assert (await caller.prepare("turn-2")).bootstrap_block == ""


def test_a_transcript_is_stored_as_a_message_with_history_alone() -> None:
    one = context_pb.PrepareTurnResponse(
        history=[message_pb.Message(provider_state=str(number)) for number in range(2)]
    ).SerializeToString()
    joined = context_pb.PrepareTurnResponse.FromString(one + one)
    assert [message.provider_state for message in joined.history] == ["0", "1", "0", "1"]
