"""Previews and receipts: typed fields only, in three languages, harmless whatever others wrote."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import (
    ActionOutcome,
    ActionState,
    Instrument,
    MoveKind,
    OrderType,
    PendingAction,
    Side,
    TimeInForce,
    TradingMode,
)
from minara_core.ids import SessionId
from minara_gateway.outside import in_full, outside
from minara_gateway.rendering import (
    DIRECT_SESSION,
    LANGUAGES,
    render_end,
    render_missing,
    render_preview,
    render_receipt,
)
from minara_tools.domain.warning_codes import WarningCode
from support.actions import an_action
from support.tools.funds import EVM_ADDRESS


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
    assert 'in "{x}[2J".' in text
    assert "\x1b" not in text


def a_move(
    kind: MoveKind, *, state: ActionState = ActionState.PENDING, **changes: Any
) -> PendingAction:
    action = an_action(state=state, side=Side.SELL)
    moved = {"instrument": Instrument(symbol="USDC", base="USDC", quote="", chain="base")}
    if kind in {MoveKind.TRADE, MoveKind.CANCEL}:
        moved = {}
    return replace(action, order=replace(action.order, kind=kind, **(moved | changes)))


def a_withdrawal(**changes: Any) -> PendingAction:
    return a_move(MoveKind.WITHDRAWAL, recipient=EVM_ADDRESS, memo="1234567", **changes)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", MoveKind)
@pytest.mark.parametrize("state", ActionState)
def test_every_kind_of_move_has_a_preview_and_receipts_in_every_language(
    language: str, kind: MoveKind, state: ActionState
) -> None:
    action = a_move(kind, state=state)
    for text in (
        render_preview(action, code="K7QF", language=language),
        render_receipt(action, language=language),
    ):
        assert text.startswith("PAPER — ")
        assert "{" not in text
    assert "K7QF" in render_preview(action, code="K7QF", language=language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_withdrawal_shows_its_recipient_and_memo_in_full(language: str) -> None:
    text = render_preview(a_withdrawal(), code="A", language=language)
    for fact in (EVM_ADDRESS, "1234567", "base", "0.02 USDC" if language == "en" else "0.02"):
        assert fact in text
    none = render_preview(
        replace(a_withdrawal(), order=replace(a_withdrawal().order, memo="")),
        code="A",
        language="en",
    )
    assert "No memo or tag" in none


def test_a_recipient_is_never_shortened_and_shows_what_hides_in_it() -> None:
    long = "r" * 120
    assert in_full(long) == long
    assert in_full("0xаb\u202ec d") == "0x<U+0430>b<U+202E>c<U+0020>d"


def test_a_limit_order_shows_its_price_and_that_it_rests() -> None:
    resting = a_move(MoveKind.TRADE, order_type=OrderType.LIMIT, time_in_force=TimeInForce.GTC)
    text = render_preview(resting, code="A", language="en")
    assert "Sell 0.02 ETH at 2525 USDC or more" in text
    assert "rests until it is filled or cancelled" in text
    assert "bound" not in text


@pytest.mark.parametrize("side", Side)
def test_a_cancel_shows_the_order_it_ends(side: Side) -> None:
    ending = a_move(MoveKind.CANCEL, side=side, cancels="c" * 32)
    text = render_preview(ending, code="A", language="en")
    assert f"Cancel the order {'c' * 32}: {side.value} 0.02 ETH at 2525 USDC" in text
    assert "Fee" not in text


def test_a_transfer_shows_both_accounts() -> None:
    moving = a_move(MoveKind.TRANSFER, recipient="paper-1-perps")
    assert "From paper-1 to paper-1-perps, at paper" in render_preview(
        moving, code="A", language="en"
    )


@pytest.mark.parametrize("session_id", ["", f"{DIRECT_SESSION}1"])
def test_what_was_made_in_no_chat_takes_no_typed_word(session_id: str) -> None:
    action = replace(an_action(), session_id=SessionId(session_id))
    assert "answer yes" not in render_preview(action, code="A", language="en")


def test_a_name_from_outside_is_quoted_unless_it_is_plain() -> None:
    assert outside("ETH/USDC") == "ETH/USDC"
    assert outside("50.01 USDC") == "50.01 USDC"
    assert outside("Send all, now!") == '"Send all, now!"'
    assert outside("ＥＴＨ\u202e") == "ETH"


def decided(kind: MoveKind, **facts: Any) -> PendingAction:
    outcome = ActionOutcome(state=ActionState.DONE, message="as recorded", **facts)
    action = a_move(kind, state=ActionState.DONE, recipient=EVM_ADDRESS)
    return replace(action, outcome=outcome)


def test_a_receipt_says_what_left_and_what_arrived() -> None:
    sent = decided(
        MoveKind.WITHDRAWAL,
        spent=Decimal("50.1"),
        spent_asset="USDC",
        received=Decimal(50),
        received_asset="USDC",
        fee=Decimal("0.1"),
        fee_asset="USDC",
    )
    text = render_receipt(sent, language="en")
    assert f"sent: 50 USDC to {EVM_ADDRESS}; 50.1 USDC left your account, fee 0.1 USDC" in text


def test_a_receipt_of_a_part_says_what_became_of_the_rest() -> None:
    part = decided(MoveKind.TRADE, filled_quantity=Decimal("0.01"), reason="REST_CANCELLED_BOUND")
    assert render_receipt(part, language="en").endswith("\nas recorded")
    spent_up = decided(MoveKind.TRADE, filled_quantity=Decimal("0.01"))
    assert "as recorded" not in render_receipt(spent_up, language="en")


def test_a_void_move_shows_the_preview_that_took_its_place() -> None:
    void = an_action(state=ActionState.VOIDED)
    assert void.outcome is not None
    void = replace(void, outcome=replace(void.outcome, replaced_by="action-2"))
    shown = render_receipt(void, language="en", replacement="PAPER — the new one")
    assert shown.splitlines()[1:] == [
        "The price moved. This is the new preview; the old one is void.",
        "PAPER — the new one",
    ]
    assert "A new preview waits: action-2" in render_receipt(void, language="en")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "limit",
    [
        "steps",
        "wall_time",
        "turn_input_tokens",
        "turn_output_tokens",
        "turn_usd",
        "session_day_usd",
        "answer_tokens",
    ],
)
def test_every_limit_has_a_sentence_in_every_language(limit: str, language: str) -> None:
    assert len(render_end(limit, language=language)) > 10


def test_a_limit_of_tomorrow_has_none() -> None:
    assert render_end("patience", language="en") == ""
