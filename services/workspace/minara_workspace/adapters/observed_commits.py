"""Committed turns as others see them: what became of one, on the span of its CommitTurn.

The turn itself is counted where it runs; to count it here too would count it twice.
"""

from opentelemetry import trace

from minara_runtime import genai
from minara_workspace.domain.session import CommittedTurn, TurnRecord


def observe_turn(record: TurnRecord, turn: CommittedTurn) -> None:
    """Implements ObserveTurn."""
    span = trace.get_current_span()
    span.set_attribute(genai.OUTCOME, turn.state.value)
    span.set_attribute(genai.ORIGIN, turn.origin.value)
    span.set_attribute(genai.STEPS, record.step_count)
    if turn.finish_reason is not None:
        span.set_attribute(genai.FINISH_REASON, turn.finish_reason.value)
    if record.failure_reason:
        span.set_attribute(genai.REASON, record.failure_reason)
