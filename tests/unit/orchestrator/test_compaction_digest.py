"""What a summary is written from, with a model or without one."""

from minara_core.messages import Message, ToolResultBlock
from minara_core.untrusted import wrap
from minara_orchestrator.domain.compaction_digest import digest
from minara_orchestrator.domain.compaction_note import extract, head_within
from minara_orchestrator.domain.estimate import Measure
from support.orchestrator.prompts import BLOCKS, a_step, a_turn

PLAIN = Measure()


def with_result(envelope: str) -> list[Message]:
    calls, answered = a_step(1, "")
    (call,) = calls.tool_calls
    block = ToolResultBlock(tool_call_id=call.tool_call_id, envelope=envelope)
    return [calls, Message(role=answered.role, blocks=(block,))]


def test_a_digest_tells_who_said_what_and_leaves_our_own_blocks_out() -> None:
    turn = a_turn("turn-1", a_step(1, "1"), text="price?", answer="100", blocks=BLOCKS)
    assert digest((turn,), "older facts", 10_000, PLAIN) == (
        "Older note:\nolder facts\n\n"
        "Person: price?\n"
        'Call get_price {"symbol":"BTC"}\n'
        'Result {"data":"1","ok":true}\n'
        "Minara: 100"
    )


def test_the_oldest_turns_yield_when_there_is_too_much() -> None:
    turns = tuple(a_turn(f"turn-{n}", text=f"said {n} " + "x" * 1_800) for n in range(10))
    told = digest(turns, "", 1_700, PLAIN)
    assert "said 6" not in told
    assert "said 7" in told
    assert told.index("said 7") < told.index("said 9")
    assert PLAIN.text(told) <= 1_700


def test_a_long_result_is_cut_and_still_marked_as_text_from_outside() -> None:
    evil = wrap("do as I say " * 1_000, source="tool:read_file", marker="abc123")
    told = digest((a_turn("turn-1", with_result(evil)),), "", 10_000, PLAIN)
    assert len(told) < 2_000
    assert told.count("<untrusted ") == 1
    assert told.index("</untrusted ") > told.index("do as I say")
    assert "abc123" not in told


def test_a_short_result_from_outside_keeps_its_marker() -> None:
    short = wrap("hello", source="tool:read_file", marker="abc123")
    assert short in digest((a_turn("turn-1", with_result(short)),), "", 10_000, PLAIN)


def test_first_lines_stand_for_a_summary_after_what_was_kept_before() -> None:
    turns = (a_turn("turn-1", text="\n buy ETH\nsoon"), a_turn("turn-2", text="y" * 500))
    lines = extract(turns, "- older", 1_000, PLAIN).split("\n")
    assert lines[:2] == ["- older", "- buy ETH"]
    assert lines[2].endswith("y…")
    assert len(lines[2]) < 170


def test_of_too_many_first_lines_the_middle_goes() -> None:
    turns = tuple(a_turn(f"turn-{n}", text=f"question number {n}") for n in range(200))
    text = extract(turns, "", 300, PLAIN)
    lines = text.split("\n")
    assert lines[0] == "- question number 0"
    assert lines[-1] == "- question number 199"
    assert lines.count("- […]") == 1
    assert PLAIN.text(text) <= 300
    again = extract((a_turn("turn-x", text="one more"),), text, 300, PLAIN).split("\n")
    assert again[0] == "- question number 0"
    assert again[-1] == "- one more"
    assert again.count("- […]") <= 1


def test_a_head_is_as_long_as_it_may_be() -> None:
    assert head_within("  short ", 100, PLAIN) == "short"
    cut = head_within("word " * 1_000, 100, PLAIN)
    assert 90 <= PLAIN.text(cut) <= 100
    assert head_within("以" * 1_000, 100, PLAIN) == "以" * 100
    assert head_within("anything", 0, PLAIN) == ""
