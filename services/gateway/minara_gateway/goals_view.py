"""A standing goal for people."""

from collections.abc import Iterator
from typing import Any


def describe_goal(answer: dict[str, Any]) -> Iterator[str]:
    """The lines of an answer of `/v1/sessions/ID/goal`."""
    goal = answer["goal"]
    if goal is None:
        yield "no goal is set in this session"
        return
    state = str(goal["state"]).removeprefix("GOAL_STATE_").lower()
    why = {"user": " by you", "turns_used_up": ", its turns are used up"}
    paused = why.get(goal["paused_reason"], "") if state == "paused" else ""
    used = f"{goal['turns_used']} of {goal['max_turns']} turns"
    yield f"goal ({state}{paused}; {used}): {goal['text']}"
    for subgoal in goal["subgoals"]:
        yield f"  - {subgoal}"
    if goal["last_verdict"]:
        yield f"last verdict: {goal['last_verdict']}, {goal['last_reason']}"
