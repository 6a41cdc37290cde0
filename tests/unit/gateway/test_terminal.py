"""Lines from a terminal: what its keys mean to the chat."""

import asyncio
from collections.abc import Generator
from io import StringIO

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from minara_gateway.talking import StopAskedError
from minara_gateway.terminal import PipedLines, TerminalLines
from support.eventually import eventually


@pytest.fixture
def keys() -> Generator[PipeInput]:
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


async def test_a_line_ends_with_enter(keys: PipeInput) -> None:
    keys.send_text("price of BTC\r")
    assert await TerminalLines().read("you> ") == "price of BTC"


async def test_control_d_is_the_end(keys: PipeInput) -> None:
    keys.send_text("\x04")
    assert await TerminalLines().read("you> ") is None


async def test_control_c_asks_to_stop_and_the_next_line_is_read(keys: PipeInput) -> None:
    lines = TerminalLines()
    keys.send_text("half a li\x03")
    with pytest.raises(StopAskedError):
        await lines.read("you> ")
    assert not lines.has_begun
    keys.send_text("a whole one\r")
    assert await lines.read("you> ") == "a whole one"


async def test_a_line_has_begun_once_there_is_something_in_it(keys: PipeInput) -> None:
    lines = TerminalLines()
    reading = asyncio.create_task(lines.read("you> "))
    assert not lines.has_begun
    keys.send_text("ye")
    await eventually(lambda: lines.has_begun)
    keys.send_text("s\r")
    assert await reading == "yes"
    assert not lines.has_begun


async def test_piped_lines_are_read_between_turns_alone() -> None:
    lines = PipedLines(StringIO("one\ntwo"))
    assert (lines.reads_beside, lines.has_begun) == (False, False)
    assert [await lines.read("") for _ in range(3)] == ["one\n", "two", None]
