"""Previews and receipts: typed fields only, in three languages, harmless whatever others wrote."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import ActionOutcome, ActionState, Instrument, Side, TradingMode
from minara_gateway.rendering import (
    LANGUAGES,
    outside,
    render_missing,
    render_preview,
    render_receipt,
)
from minara_tools.domain.warning_codes import WarningCode
from support.actions import an_action


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("side", Side)
def test_a_preview_shows_what_will_be_sent(language: str, side: Side) -> None:
    text = render_preview(an_action(side=side), code="K7QF", language=language)
    assert text.startswith("PAPER — ")
    for fact in ("0.02", "ETH/USDC", "2500", "2525", "K7QF", "simulated", "2026-11-30 12:10:00"):
        assert fact in text


@pytest.mark.parametrize("mode", TradingMode)
def test_a_preview_is_headed_by_whose_money_it_is(mode: TradingMode) -> None:
    action = an_action()
    live = replace(action, order=replace(action.order, mode=mode))
    assert render_preview(live, code="A", language="en").startswith(mode.value.upper())


def test_an_unsolicited_preview_says_so_and_offers_no_typed_word() -> None:
    action = replace(an_action(solicited=False), read_sources=("read_file", "evil\u202etxt"))
    text = render_preview(action, code="K7QF", language="en")
    assert "You did not ask for this. Read in that turn: read_file, eviltxt." in text
    assert "answer yes" not in text
    assert "/confirm K7QF" in text


def test_a_possible_duplicate_is_told_and_takes_no_typed_word() -> None:
    text = render_preview(replace(an_action(), possible_duplicate=True), code="A", language="en")
    assert "may be a duplicate" in text
    assert "answer yes" not in text


def test_names_from_outside_cannot_draw_on_the_screen() -> None:
    action = an_action()
    evil = Instrument(symbol="ETH\x1b[2J/USDC\n\nyes", base="E\u202eTH" + "x" * 90, quote="USDC")
    text = render_preview(
        replace(action, order=replace(action.order, instrument=evil)), code="A", language="en"
    )
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\n\nyes" not in text
    assert "x" * 40 not in text


@given(st.text())
def test_outside_text_is_short_and_printable(text: str) -> None:
    shown = outside(text)
    assert len(shown) <= 32
    assert shown.isprintable()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("state", ActionState)
def test_every_state_has_a_receipt(language: str, state: ActionState) -> None:
    action = an_action(state=state)
    text = render_receipt(action, language=language)
    assert text.startswith("PAPER — ")
    assert "{" not in text


def test_a_receipt_repeats_the_recorded_fill() -> None:
    from decimal import Decimal

    action = replace(
        an_action(state=ActionState.DONE),
        outcome=ActionOutcome(
            state=ActionState.DONE,
            message="filled",
            filled_quantity=Decimal("0.0199"),
            filled_asset="ETH",
            average_price=Decimal("2501.5"),
            spent=Decimal("49.83"),
            spent_asset="USDC",
            received=Decimal("0.0199"),
            received_asset="ETH",
            fee=Decimal("0.05"),
            fee_asset="USDC",
            client_order_id="ab" * 16,
            venue_order_id="paper-7",
        ),
    )
    text = render_receipt(action, language="en")
    for fact in ("0.0199", "2501.5", "49.83", "0.05", "ab" * 16, "paper-7"):
        assert fact in text


def test_an_unknown_language_is_told_in_english() -> None:
    assert render_missing("fr") == render_missing("en")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", WarningCode)
def test_every_warning_has_words_in_every_language(language: str, code: WarningCode) -> None:
    def rendered(*warnings: str) -> list[str]:
        action = an_action()
        told = replace(action, preview=replace(action.preview, warnings=warnings))
        return render_preview(told, code="K7QF", language=language).splitlines()

    shown = set(rendered(code.about("DETAIL"))) - set(rendered())
    assert len(shown) == 1
    assert code.value not in shown.pop()


def test_a_warning_without_words_is_shown_as_it_is_and_harmless() -> None:
    action = an_action()
    told = replace(
        action, preview=replace(action.preview, warnings=("ODD: x", "CONCENTRATED:{x}\x1b[2J"))
    )
    text = render_preview(told, code="A", language="en")
    assert "ODD: x" in text
    assert "in {x}[2J." in text
    assert "\x1b" not in text
