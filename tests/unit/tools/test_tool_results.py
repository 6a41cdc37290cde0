"""Envelopes: one shape, a cap, and never broken JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st

from minara_core.actions import ActionState
from minara_core.ids import ToolCallId, TurnId, UserId
from minara_core.taxonomy import TradingState
from minara_core.tooling import (
    ToolFailure,
    ToolPending,
    ToolSuccess,
    dump_json,
    result_uri,
)
from minara_tools.domain.results import MAX_ENVELOPE_BYTES, capped, decided, envelope
from minara_tools.domain.trading import INSTALLATION, ScopeState, standing_of
from support.actions import an_action


def test_a_small_result_is_whole() -> None:
    success = ToolSuccess(data_json='{"price":"1"}')
    assert capped(success) == (success, None)


@given(st.text(min_size=1, max_size=40), st.integers(min_value=500, max_value=4_000))
def test_a_large_result_is_cut_to_valid_json_and_its_whole_is_kept(text: str, times: int) -> None:
    data = dump_json({"text": text * times})
    cut, whole = capped(ToolSuccess(data_json=data, is_untrusted=False))
    if whole is None:
        assert cut.data_json == data
        return
    assert whole == data
    shown = envelope(cut)
    assert len(shown.encode()) <= MAX_ENVELOPE_BYTES
    told = json.loads(shown)["data"]
    assert told["is_cut"]
    assert str(len(data.encode())) in told["notice"]
    assert data.startswith(told["beginning"])
    assert data.endswith(told["end"])
    assert "whole" not in told
    assert not cut.is_untrusted


def test_a_cut_result_names_where_the_whole_is() -> None:
    uri = result_uri(TurnId("turn-1"), ToolCallId("1.0"))
    cut, _ = capped(ToolSuccess(data_json=dump_json("x" * 90_000)), uri)
    assert json.loads(cut.data_json)["whole"] == "result://turn-1/1.0"


def test_a_pending_action_is_told_with_its_preview() -> None:
    action = an_action()
    told = json.loads(envelope(ToolPending(action=action)))
    assert told["ok"]
    assert told["data"]["pending_action_id"] == action.pending_action_id
    assert told["data"]["preview"]["notional_usd"] == "50"
    assert told["data"]["preview"]["mode"] == "paper"


def test_a_decided_action_tells_its_outcome() -> None:
    done = decided(an_action(state=ActionState.DONE))
    assert isinstance(done.outcome, ToolSuccess)
    assert json.loads(done.envelope)["data"]["state"] == "done"
    failed = decided(an_action(state=ActionState.FAILED))
    assert isinstance(failed.outcome, ToolFailure)


def test_the_stricter_trading_state_holds() -> None:
    user = UserId("local")
    for own in TradingState:
        for wide in TradingState:
            standing = standing_of(
                ScopeState(scope=user, state=own),
                ScopeState(scope=INSTALLATION, state=wide),
                has_halt_file=False,
            )
            order = list(TradingState)
            assert standing.state is max(own, wide, key=order.index)
            assert standing.is_installation_wide is (order.index(wide) > order.index(own))
            halted = standing_of(
                ScopeState(scope=user, state=own),
                ScopeState(scope=INSTALLATION, state=wide),
                has_halt_file=True,
            )
            assert halted.state is TradingState.HALTED


def test_an_etag_changes_with_every_change_of_either_state() -> None:
    etags = {
        standing_of(
            ScopeState(scope="local", revision=own),
            ScopeState(scope=INSTALLATION, revision=wide),
            has_halt_file=has_file,
        ).etag
        for own in range(3)
        for wide in range(3)
        for has_file in (False, True)
    }
    assert len(etags) == 18
