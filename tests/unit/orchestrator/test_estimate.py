"""Estimates: bytes to tokens, and what reports make of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.messages import FileBlock, Message, Role, user_message
from minara_orchestrator.domain.estimate import (
    FILE_TOKENS,
    IMAGE_TOKENS,
    Measure,
    TokenEstimator,
    text_tokens,
)
from support.orchestrator.prompts import a_prompt, a_turn


def test_latin_text_has_three_and_a_half_bytes_a_token_and_other_scripts_three() -> None:
    assert text_tokens("x" * 360) == 100
    assert text_tokens("以" * 100) == 100
    assert text_tokens("x" * 360 + "以" * 100) == 200
    assert text_tokens("") == 0


@given(text=st.text())
def test_every_text_has_an_estimate(text: str) -> None:
    assert 0 <= text_tokens(text) <= len(text.encode("utf-8", "replace"))


def test_an_image_counts_a_flat_figure_whatever_its_size() -> None:
    empty = Measure().messages([Message(role=Role.USER, blocks=())])
    for media_type, tokens in (("image/png", IMAGE_TOKENS), ("application/pdf", FILE_TOKENS)):
        file = FileBlock(file_key="key", media_type=media_type)
        message = Message(role=Role.USER, blocks=(file,))
        assert Measure().messages([message]) == empty + tokens


def test_a_prompt_counts_tools_system_history_and_what_is_new() -> None:
    small = Measure().prompt(a_prompt())
    assert Measure().prompt(a_prompt(a_turn("turn-1", text="x" * 3_600))) > small + 1_000
    assert Measure().prompt(a_prompt(text="x" * 3_600)) > small + 990
    assert Measure().prefix(a_prompt()) > 0


def test_reports_move_the_estimate_towards_what_was_counted() -> None:
    estimator = TokenEstimator()
    message = [user_message("x" * 36_000)]
    for _ in range(30):
        estimated = estimator.measure("model").messages(message)
        estimator.learn("model", estimated=estimated, told=13_000)
    assert estimator.measure("model").messages(message) == pytest.approx(13_000, rel=0.02)
    assert estimator.measure("another").messages(message) == Measure().messages(message)


def test_one_report_moves_it_only_a_part_of_the_way() -> None:
    estimator = TokenEstimator()
    estimator.learn("model", estimated=100, told=200)
    assert estimator.measure("model").factor == pytest.approx(1.3)


@pytest.mark.parametrize(("told", "factor"), [(1, 0.5), (1_000_000, 2.0)])
def test_the_correction_is_bounded(told: int, factor: float) -> None:
    estimator = TokenEstimator()
    for _ in range(50):
        estimator.learn("model", estimated=1_000, told=told)
    assert estimator.measure("model").factor == factor


@pytest.mark.parametrize(("estimated", "told"), [(0, 100), (100, 0), (-1, -1)])
def test_a_report_of_nothing_teaches_nothing(estimated: int, told: int) -> None:
    estimator = TokenEstimator()
    estimator.learn("model", estimated=estimated, told=told)
    assert estimator.measure("model").factor == 1.0
