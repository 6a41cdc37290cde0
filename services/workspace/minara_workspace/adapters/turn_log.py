"""Committed turns as the log shows them."""

from minara_runtime.logging import get_logger
from minara_workspace.domain.session import CommittedTurn, TurnRecord

_log = get_logger("workspace/turns")


def log_turn(record: TurnRecord, turn: CommittedTurn) -> None:
    """Implements ObserveTurn."""
    _log.info(
        "turn_committed",
        turn_id=record.turn_id,
        session_id=record.session_id,
        turn_number=turn.turn_number,
        origin=record.origin.value,
        state=record.state.value,
        finish_reason=record.finish_reason.value if record.finish_reason else "",
        reason=record.failure_reason,
        steps=record.step_count,
        input_tokens=record.usage.input_tokens,
        output_tokens=record.usage.output_tokens,
    )
