"""Unforeseen exceptions go to the log under a reference id; only the id is told."""

from minara_core.errors import MinaraError
from minara_core.ids import IdSource
from minara_orchestrator.domain.turn import Turn
from minara_runtime import logging


class BugReports:
    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._log = logging.get_logger("agent/loop")

    def of_turn(self, error: Exception, turn: Turn) -> str:
        """Log what broke a turn; the reference id to tell."""
        reference = self._ids.new()
        self._log.error(
            "turn_broke",
            reference_id=reference,
            turn_id=turn.context.turn_id,
            session_id=turn.context.session_id,
            exc_info=error,
        )
        return reference

    def of_task(self, error: BaseException) -> None:
        """Log what broke a turn's own task."""
        self._log.error("turn_task_broke", reference_id=self._ids.new(), exc_info=error)

    def of_preferences(self, error: MinaraError) -> None:
        """Log that nobody could say which model a person chose."""
        self._log.warning("model_preference_unread", reason=str(error.reason))
