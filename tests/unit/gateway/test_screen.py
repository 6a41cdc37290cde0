"""What a terminal shows of a turn."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from minara_gateway.client import StreamedEvent
from minara_gateway.screen import Screen

WIDTH = 20


class Terminal:
    """A screen, and what stands on it."""

    def __init__(self, *, is_shared: bool = False, width: int = 100) -> None:
        self._file = StringIO()
        self.screen = Screen(Console(file=self._file, width=width, no_color=True))
        self.screen.is_shared = is_shared

    def show(self, name: str, /, **fields: Any) -> str:
        """What one event adds."""
        before = len(self._file.getvalue())
        self.screen.show(StreamedEvent(name=name, sequence=1, fields=fields))
        return self._file.getvalue()[before:]

    @property
    def all(self) -> str:
        return self._file.getvalue()


@pytest.mark.parametrize(
    ("name", "fields", "shown"),
    [
        ("user_interjected", {"text": "and ETH?", "message_id": "m"}, "(now reads: and ETH?)"),
        ("turn_resumed", {"owner": "o", "after_step": 2}, "another process goes on"),
        ("skill_activated", {"skill_id": "dca", "reason": "asked for"}, "(skill dca: asked for)"),
        ("turn_queued", {"position": 2}, "waiting behind 2 turn(s)"),
        (
            "goal_judged",
            {"verdict": "met", "reason": "it holds 1 ETH", "turns_used": 2, "max_turns": 20},
            "(goal: met, turn 2 of 20: it holds 1 ETH)",
        ),
    ],
)
def test_what_happens_in_a_turn_is_told_in_a_line(
    name: str, fields: dict[str, Any], shown: str
) -> None:
    assert shown in Terminal().show(name, **fields)


def test_what_strangers_wrote_cannot_move_the_cursor() -> None:
    shown = Terminal().show("user_interjected", text="a\x1b[2Jb", message_id="m")
    assert "\x1b[2J" not in shown
    assert "a[2Jb" in shown


def test_calls_of_a_sub_agent_stand_under_it() -> None:
    terminal = Terminal()
    own = terminal.show("tool_call_started", name="subagent", tool_call_id="1.0", arguments_json="")
    part = terminal.show("tool_call_started", name="x", tool_call_id="1.0/2.0", arguments_json="")
    assert own.startswith("→ subagent")
    assert part.startswith("  → x")
    failure = {"tool_call_id": "1.0/2.0", "failure": {"message": "broke"}}
    assert terminal.show("tool_call_finished", result=failure).startswith("  ✗ broke")


def test_a_question_is_shown_when_it_ends_the_turn() -> None:
    terminal = Terminal()
    asked = '{"question": "Which one?", "options": ["ETH", "BTC"]}'
    terminal.show("tool_call_started", name="ask_user", tool_call_id="1.0", arguments_json=asked)
    assert terminal.all == ""
    terminal.show("turn_completed", finish_reason="FINISH_REASON_QUESTION")
    assert terminal.all.splitlines() == ["Which one?", "1. ETH", "2. BTC"]
    assert terminal.screen.question is not None


def test_a_question_is_forgotten_with_the_next_turn() -> None:
    terminal = Terminal()
    asked = '{"question": "Which one?"}'
    terminal.show("tool_call_started", name="ask_user", tool_call_id="1.0", arguments_json=asked)
    terminal.show("turn_completed", finish_reason="FINISH_REASON_STOP")
    assert terminal.screen.question is None


def test_text_comes_as_it_is_said_when_nothing_stands_below_it() -> None:
    terminal = Terminal()
    assert terminal.show("text_delta", text="It ") == "It "
    assert terminal.show("text_delta", text="is") == "is"
    terminal.screen.end_text()
    assert terminal.all == "It is\n"


def test_above_a_prompt_text_comes_in_whole_lines() -> None:
    terminal = Terminal(is_shared=True)
    assert terminal.show("text_delta", text="It is") == ""
    assert terminal.show("text_delta", text=" up.\nSo") == "It is up.\n"
    terminal.screen.end_text()
    assert terminal.all == "It is up.\nSo\n"


@pytest.mark.parametrize(
    "text", ["the price went up and up and up again", "價格上漲" * 10, "x" * 50]
)
def test_above_a_prompt_a_long_line_is_broken_and_nothing_is_lost(text: str) -> None:
    terminal = Terminal(is_shared=True, width=WIDTH)
    for letter in text:
        terminal.show("text_delta", text=letter)
    terminal.screen.end_text()
    lines = terminal.all.splitlines()
    assert len(lines) > 1
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(len(line.encode("cp950", "replace")) <= WIDTH for line in lines)


def test_a_word_is_not_broken_where_a_space_is_near() -> None:
    terminal = Terminal(is_shared=True, width=WIDTH)
    terminal.show("text_delta", text="the price went up and up")
    terminal.screen.end_text()
    assert terminal.all.splitlines() == ["the price went up", "and up"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("turn_completed", {"finish_reason": "FINISH_REASON_STOP"}),
        ("turn_failed", {"reason": "PROVIDER_UNAVAILABLE", "message": "no model answers"}),
        ("turn_cancelled", {"reason": "stopped"}),
    ],
)
def test_late_messages_are_kept_for_the_next_turn(name: str, fields: dict[str, Any]) -> None:
    terminal = Terminal()
    terminal.show(name, **fields, pending_interjections=["and ETH?"])
    assert terminal.screen.late == ["and ETH?"]
