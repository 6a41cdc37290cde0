"""What both sides of a goal turn agree on: the client starts it, the orchestrator admits it."""

GOAL_TURN_TEXT = (
    "Go on with the standing goal of this session: take the next useful step, then say what was "
    "found and what is still missing."
)
"""The text of every turn of origin `goal`. No person said it, so it asks for nothing in particular
and counts neither as a message nor as a confirmation."""
