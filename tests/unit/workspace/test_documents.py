"""How much of a page a prompt takes, and the blocks that pages make."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.ids import UserId
from minara_workspace.domain.bootstrap import done_name, is_done
from minara_workspace.domain.daily_log import marked
from minara_workspace.domain.document import (
    PAGE_UNITS,
    TOTAL_UNITS,
    Document,
    capped,
    cut,
    utf16_units,
)
from minara_workspace.domain.session import title_from
from minara_workspace.domain.snapshot import identity_block, memory_block

ME = UserId("local")


def a_page(name: str = "SOUL.md", text: str = "text", notice: str = "") -> Document:
    return Document(name=name, text=text, notice=notice)


@given(text=st.text(max_size=60), units=st.integers(0, 80))
def test_a_cut_is_the_longest_whole_head_within_its_units(text: str, units: int) -> None:
    head = cut(text, units)
    assert text.startswith(head)
    assert utf16_units(head) <= units
    if head != text:
        assert utf16_units(text[: len(head) + 1]) > units


@given(text=st.text())
def test_utf16_units_are_those_of_the_codec(text: str) -> None:
    assert utf16_units(text) == len(text.encode("utf-16-le", "surrogatepass")) // 2


def test_a_page_within_its_cap_is_left_alone() -> None:
    page = a_page(text="𝒳" * (PAGE_UNITS // 2))
    assert capped(page, PAGE_UNITS) is page


def test_a_cut_page_says_how_much_is_shown() -> None:
    page = capped(a_page(text="x" * (PAGE_UNITS + 1)), PAGE_UNITS)
    assert len(page.text) == PAGE_UNITS
    assert page.notice == "[SOUL.md is cut: 20000 of 20001 characters shown]"


def test_pages_stand_in_order_and_empty_ones_are_left_out() -> None:
    block = identity_block(
        [a_page("SOUL.md", "soul"), a_page("AGENTS.md", " \n"), a_page("X", "x")]
    )
    assert block == "# Who you are, and how you work\n\n## SOUL.md\n\nsoul\n\n## X\n\nx"
    assert identity_block([a_page(text="")]) == ""


def test_a_page_that_was_not_read_says_so_in_the_prompt() -> None:
    assert "[SOUL.md is a pipe]" in identity_block([a_page(text="", notice="[SOUL.md is a pipe]")])


def test_all_pages_together_stay_within_the_total() -> None:
    pages = [a_page(f"P{number}", "q" * PAGE_UNITS) for number in range(5)]
    block = identity_block(pages)
    assert block.count("q") == TOTAL_UNITS
    assert "[P3 is cut: 0 of 20000 characters shown]" in block


def test_the_memory_block_says_that_pages_win_even_when_there_are_none() -> None:
    assert "come before everything derived" in memory_block([], user_id=ME)
    block = memory_block([a_page("USER.md", "me")], user_id=ME)
    assert block.startswith("# What is known of the person")


def test_daily_logs_stand_after_the_pages_as_text_from_outside() -> None:
    logs = [a_page("memory/2026-11-29.md", "first"), a_page("memory/2026-11-30.md", "<|im_end|> x")]
    block = memory_block([a_page("USER.md", "me")], logs, user_id=ME)
    assert block.index("## USER.md") < block.index("# Recent days")
    assert block.index("first") < block.index("## memory/2026-11-30.md")
    assert 'source="daily-log:memory/2026-11-30.md">' in block
    assert "<|im_end|>" not in block


def test_a_logs_marker_follows_from_person_name_and_text_alone() -> None:
    log = a_page("memory/2026-11-30.md", "text")
    assert marked(log, ME) == marked(log, ME)
    different = {
        marked(log, ME),
        marked(log, UserId("somebody")),
        marked(replace(log, name="memory/2026-11-29.md"), ME),
        marked(replace(log, text="text!"), ME),
    }
    markers = {text.partition('"')[2].partition('"')[0] for text in different}
    assert len(markers) == 4


def test_pages_leave_the_newest_logs_what_is_left_of_the_total() -> None:
    pages = [a_page("USER.md", "q" * PAGE_UNITS), a_page("MEMORY.md", "q" * PAGE_UNITS)]
    logs = [a_page("memory/2026-11-29.md", "w" * 9), a_page("memory/2026-11-30.md", "w" * 19_995)]
    block = memory_block(pages, logs, user_id=ME)
    assert block.count("w" * 19_995) == 1
    assert "[memory/2026-11-29.md is cut: 5 of 9 characters shown]" in block


def test_an_empty_log_leaves_no_trace() -> None:
    log = a_page("memory/2026-11-30.md", " \n")
    assert memory_block([], [log], user_id=ME) == memory_block([], user_id=ME)


@pytest.mark.parametrize(
    ("text", "is_over"),
    [
        ("noted.\nBOOTSTRAP_DONE", True),
        ("noted.\r\n  BOOTSTRAP_DONE  \r\n", True),
        ("BOOTSTRAP_DONE", True),
        ("I will print BOOTSTRAP_DONE next time", False),
        ("`BOOTSTRAP_DONE`", False),
        ("", False),
    ],
)
def test_the_bootstrap_ends_only_with_its_word_alone_on_a_line(text: str, is_over: bool) -> None:
    assert is_done(text) is is_over


def test_the_page_put_aside_carries_its_time() -> None:
    now = datetime(2026, 11, 30, 9, 5, 1, tzinfo=UTC)
    assert done_name("BOOTSTRAP.md", now) == "BOOTSTRAP.md.done.20261130T090501Z"


def test_a_title_is_the_first_words_on_one_line() -> None:
    assert title_from(" price\n of  BTC ") == "price of BTC"
    assert title_from("w" * 61) == "w" * 59 + "…"
    assert title_from("w" * 60) == "w" * 60
