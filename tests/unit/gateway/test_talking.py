"""A person's lines and the turn they see: what goes into it, what stops it, what decides."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import httpx
import pytest
from rich.console import Console
from typing_extensions import override

from minara_gateway.client import GatewayClient
from minara_gateway.repl import Repl
from minara_gateway.talking import StopAskedError
from support.eventually import eventually

STOP = "stop asked"
"""Stands for Ctrl-C among the lines."""


@dataclass
class Events(httpx.AsyncByteStream):
    """A turn's frames, as the test lets them out."""

    queue: asyncio.Queue[tuple[str, dict[str, Any]] | None] = field(
        default_factory=asyncio.Queue[tuple[str, dict[str, Any]] | None]
    )
    sent: int = 0
    was_left: bool = False

    def tell(self, name: str, /, **fields: Any) -> None:
        self.queue.put_nowait((name, fields))

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (told := await self.queue.get()) is not None:
            name, fields = told
            self.sent += 1
            yield f"event: {name}\nid: {self.sent}\ndata: {json.dumps({name: fields})}\n\n".encode()

    @override
    async def aclose(self) -> None:
        self.was_left = True


class Gateway(httpx.AsyncBaseTransport):
    """Answers as the test says, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.turns: list[Events] = []
        self.answers: dict[str, tuple[int, dict[str, Any]]] = {
            "/v1/chat/interject": (200, {"turn_id": "turn-1", "message_id": "m", "notices": []}),
            "/v1/chat/interrupt": (200, {"turn_id": "turn-1", "was_live": True}),
        }

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(await request.aread() or b"{}")
        path = request.url.path
        self.asked.append((path, body))
        if path in self.answers:
            code, answer = self.answers[path]
            return httpx.Response(code, json=answer)
        turn = Events()
        turn.tell("turn_started", turn_id=f"turn-{len(self.turns) + 1}", session_id="session-1")
        self.turns.append(turn)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=turn)

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for asked, body in self.asked if asked == path]


class Typing:
    """Implements LineSource for lines that are typed while turns are shown."""

    is_terminal = True
    reads_beside = True

    def __init__(self) -> None:
        self.has_begun = False
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def type(self, line: str | None) -> None:
        self._lines.put_nowait(line)

    @property
    def is_read(self) -> bool:
        """Whether everything that was typed has been taken."""
        return self._lines.empty()

    async def read(self, prompt: str) -> str | None:
        line = await self._lines.get()
        if line == STOP:
            raise StopAskedError
        return line


class Chat:
    """A terminal chat before a gateway of the test's own."""

    def __init__(self) -> None:
        self.gateway = Gateway()
        self.lines = Typing()
        self._file = StringIO()
        http = httpx.AsyncClient(transport=self.gateway, base_url="http://localhost")
        self._repl = Repl(
            GatewayClient(http),
            Console(file=self._file, width=100, no_color=True),
            print_trace=lambda _: None,
        )
        self.task: asyncio.Task[None] | None = None

    @property
    def shown(self) -> str:
        return self._file.getvalue()

    async def begins(self, message: str) -> Events:
        """The person says something; its turn, which has begun."""
        count = len(self.gateway.turns)
        self.lines.type(message)
        self.task = self.task or asyncio.create_task(self._repl.run(self.lines))
        return await self.turn(count + 1)

    async def turn(self, number: int) -> Events:
        await eventually(lambda: len(self.gateway.turns) == number)
        turn = self.gateway.turns[-1]
        await eventually(lambda: turn.sent >= 1)
        return turn

    async def ends(self) -> None:
        assert self.task is not None
        self.lines.type(None)
        await asyncio.wait_for(self.task, 5)


@pytest.fixture
def chat() -> Chat:
    return Chat()


def complete(turn: Events, reason: str = "STOP", **fields: Any) -> None:
    turn.tell("turn_completed", finish_reason=f"FINISH_REASON_{reason}", **fields)


async def test_a_line_typed_while_a_turn_runs_goes_into_it(chat: Chat) -> None:
    turn = await chat.begins("price of BTC")
    chat.lines.type("and ETH?")
    await eventually(lambda: bool(chat.gateway.bodies("/v1/chat/interject")))
    complete(turn)
    await chat.ends()
    sent = {"message": "and ETH?", "session_id": "session-1", "turn_id": "turn-1"}
    assert chat.gateway.bodies("/v1/chat/interject") == [sent | {"surface": "repl"}]
    assert len(chat.gateway.turns) == 1


async def test_a_line_that_came_too_late_is_the_next_message_and_decides_nothing(
    chat: Chat,
) -> None:
    over = {"reason": "TURN_OVER", "detail": "it takes no more messages"}
    chat.gateway.answers["/v1/chat/interject"] = (409, over)
    turn = await chat.begins("buy $50 of ETH")
    chat.lines.type("yes")
    await eventually(lambda: bool(chat.gateway.bodies("/v1/chat/interject")))
    turn.tell("approval_requested", rendered_preview="Buy?", action={"pending_action_id": "a-1"})
    complete(turn, "APPROVAL_REQUESTED")
    complete(await chat.turn(2))
    await chat.ends()
    late = chat.gateway.bodies("/v1/chat/stream")[1]
    assert late["message"] == "yes"
    assert not late.get("shown_action_id")


async def test_what_the_turn_did_not_read_is_the_next_message(chat: Chat) -> None:
    turn = await chat.begins("price of BTC")
    complete(turn, pending_interjections=["and ETH?", "and SOL?"])
    complete(await chat.turn(2))
    await chat.ends()
    assert chat.gateway.bodies("/v1/chat/stream")[1]["message"] == "and ETH?\nand SOL?"


async def test_a_yes_decides_the_preview_that_stood_there_before_it_was_typed(chat: Chat) -> None:
    turn = await chat.begins("buy $50 of ETH")
    turn.tell("approval_requested", rendered_preview="Buy?", action={"pending_action_id": "a-1"})
    complete(turn, "APPROVAL_REQUESTED")
    await eventually(lambda: turn.was_left)
    complete(await chat.begins("yes"))
    await chat.ends()
    assert chat.gateway.bodies("/v1/chat/stream")[1]["shown_action_id"] == "a-1"


async def test_a_yes_that_was_begun_before_the_preview_came_decides_nothing(chat: Chat) -> None:
    turn = await chat.begins("buy $50 of ETH")
    chat.lines.has_begun = True
    turn.tell("approval_requested", rendered_preview="Buy?", action={"pending_action_id": "a-1"})
    complete(turn, "APPROVAL_REQUESTED")
    await eventually(lambda: turn.was_left)
    complete(await chat.begins("yes"))
    await chat.ends()
    assert not chat.gateway.bodies("/v1/chat/stream")[1].get("shown_action_id")


async def test_the_first_stop_stops_the_turn_and_shows_its_end(chat: Chat) -> None:
    turn = await chat.begins("price of BTC")
    turn.tell("text_delta", text="It is")
    chat.lines.type(STOP)
    await eventually(lambda: bool(chat.gateway.bodies("/v1/chat/interrupt")))
    complete(turn, "INTERRUPTED")
    await chat.ends()
    assert chat.gateway.bodies("/v1/chat/interrupt") == [{"turn_id": "turn-1"}]
    assert "It is" in chat.shown
    assert "(ended: interrupted)" in chat.shown


async def test_the_second_stop_leaves_the_turn(chat: Chat) -> None:
    turn = await chat.begins("price of BTC")
    chat.lines.type(STOP)
    await eventually(lambda: bool(chat.gateway.bodies("/v1/chat/interrupt")))
    chat.lines.type(STOP)
    await eventually(lambda: turn.was_left)
    await chat.ends()
    assert "stopped watching" in chat.shown


async def test_messages_for_a_turn_that_was_stopped_are_not_sent_after_it(chat: Chat) -> None:
    turn = await chat.begins("price of BTC")
    chat.lines.type(STOP)
    await eventually(lambda: bool(chat.gateway.bodies("/v1/chat/interrupt")))
    complete(turn, "INTERRUPTED", pending_interjections=["and ETH?"])
    await chat.ends()
    assert "not sent: and ETH?" in chat.shown
    assert len(chat.gateway.turns) == 1


async def test_trading_can_be_stopped_while_a_turn_runs(chat: Chat) -> None:
    halted: dict[str, Any] = {
        "trading_state": {"state": "TRADING_STATE_HALTED"},
        "executing_action_ids": [],
    }
    chat.gateway.answers["/v1/trading:halt"] = (200, halted)
    turn = await chat.begins("price of BTC")
    chat.lines.type("/stop")
    await eventually(lambda: bool(chat.gateway.bodies("/v1/trading:halt")))
    chat.lines.type("/withdraw")
    await eventually(lambda: "not while a turn runs" in chat.shown)
    complete(turn)
    await chat.ends()
    assert "trading is HALTED" in chat.shown


async def test_a_number_answers_a_question_with_its_option(chat: Chat) -> None:
    turn = await chat.begins("buy something")
    asked = json.dumps({"question": "Which one?", "options": ["ETH", "BTC"]})
    turn.tell("tool_call_started", name="ask_user", tool_call_id="1.0", arguments_json=asked)
    complete(turn, "QUESTION")
    await eventually(lambda: turn.was_left)
    complete(await chat.begins("2"))
    await chat.ends()
    assert chat.gateway.bodies("/v1/chat/stream")[1]["message"] == "BTC"
    assert "1. ETH\n2. BTC" in chat.shown


async def test_a_goal_is_worked_on_until_the_verdict_is_another_one(chat: Chat) -> None:
    path = "/v1/sessions/session-1/goal:continue"
    complete(await chat.begins("price of BTC"))
    judged = {"reason": "so", "turns_used": 1, "max_turns": 20}
    for verdict in ("continue", "continue", "met"):
        turn = (
            await chat.begins("/goal go")
            if len(chat.gateway.turns) == 1
            else await chat.turn(len(chat.gateway.bodies(path)) + 1)
        )
        turn.tell("goal_judged", verdict=verdict, **judged)
        complete(turn)
        await eventually(lambda turn=turn: turn.was_left)
    await chat.ends()
    assert len(chat.gateway.bodies(path)) == 3


async def test_a_stop_ends_the_work_on_a_goal(chat: Chat) -> None:
    complete(await chat.begins("price of BTC"))
    turn = await chat.begins("/goal go")
    chat.lines.type(STOP)
    await eventually(lambda: bool(chat.gateway.bodies("/v1/chat/interrupt")))
    turn.tell("goal_judged", verdict="continue", reason="so", turns_used=1, max_turns=20)
    complete(turn, "INTERRUPTED")
    await eventually(lambda: turn.was_left)
    await chat.ends()
    assert len(chat.gateway.turns) == 2


async def test_a_turn_that_judged_nothing_ends_the_work_on_a_goal(chat: Chat) -> None:
    complete(await chat.begins("price of BTC"))
    complete(await chat.begins("/goal go"), "QUESTION")
    await chat.ends()
    assert len(chat.gateway.turns) == 2


async def test_the_end_of_input_ends_the_chat_once_the_turn_is_shown(chat: Chat) -> None:
    turn = await chat.begins("price of BTC")
    chat.lines.type(None)
    await eventually(lambda: chat.lines.is_read)
    turn.tell("text_delta", text="It is up.")
    complete(turn)
    assert chat.task is not None
    await asyncio.wait_for(chat.task, 5)
    assert "It is up." in chat.shown
