"""Skill sessions in memory, and a small registry to route in."""

from dataclasses import replace
from typing import Any

from minara_core.ids import SessionId, TurnId, UserId
from minara_core.taxonomy import Origin
from minara_core.turn_context import TurnContext
from minara_skills.domain.session import SkillSession
from minara_skills.domain.skill import Routing, Skill

TOOLS = (
    "activate_skills", "ask_user", "buy_token", "get_fear_greed", "get_portfolio", "get_price",
    "get_trending", "read_file", "search_tokens", "sell_token", "write_file",
)  # fmt: skip
"""Tools as they exist in an installation."""


class FakeSkillSessions:
    """Implements SkillSessions: a list of turns in the order they were recorded."""

    def __init__(self) -> None:
        self._rows: list[tuple[TurnContext, SkillSession]] = []

    async def previous(self, context: TurnContext) -> SkillSession | None:
        own = self._place(context)
        before = self._rows if own is None else self._rows[:own]
        key = (context.user_id, context.session_id)
        return next(
            (left for at, left in reversed(before) if (at.user_id, at.session_id) == key), None
        )

    async def record(self, context: TurnContext, session: SkillSession) -> None:
        if self._place(context) is None:
            self._rows.append((context, session))

    async def add_skills(self, context: TurnContext, skill_ids: tuple[str, ...]) -> None:
        place = self._place(context)
        if place is not None:
            at, left = self._rows[place]
            names = tuple(dict.fromkeys((*left.skill_ids, *skill_ids)))
            self._rows[place] = (
                at,
                SkillSession(stage=left.stage, assets=left.assets, skill_ids=names),
            )

    def _place(self, context: TurnContext) -> int | None:
        key = (context.user_id, context.turn_id)
        return next(
            (n for n, (at, _) in enumerate(self._rows) if (at.user_id, at.turn_id) == key), None
        )


def a_skill_turn(
    turn_id: str = "turn-1", *, session_id: str = "session-1", user_id: str = "local"
) -> TurnContext:
    return TurnContext(
        turn_id=TurnId(turn_id),
        session_id=SessionId(session_id),
        user_id=UserId(user_id),
        origin=Origin.HTTP,
        allowed_tool_sets=("read", "trade"),
    )


def a_skill(skill_id: str = "test.skill", **changes: Any) -> Skill:
    """A valid skill with `changes` to its fields."""
    made = Skill(skill_id=skill_id, description="What it is for.", prompt="What to do.")
    return replace(made, **changes)


def routed_by(*keywords: str, **changes: Any) -> Routing:
    """Routing by keywords with `changes` to its fields."""
    return replace(Routing(keywords=keywords), **changes)
