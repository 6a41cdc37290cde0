"""SkillSessions: one suite for the fake and for the real one on both databases."""

from collections.abc import AsyncGenerator

import pytest

from minara_core.taxonomy import LifecycleStage
from minara_skills.adapters.sql_sessions import VERSIONS, SqlSkillSessions
from minara_skills.app.ports import SkillSessions
from minara_skills.domain.session import SkillSession
from support.clock import FixedClock
from support.databases import Databases
from support.skills_sessions import FakeSkillSessions, a_skill_turn

LEFT = SkillSession(
    stage=LifecycleStage.DECIDE, assets=("ETH", "BTC"), skill_ids=("trade.spot", "minara.core")
)
LATER = SkillSession(stage=LifecycleStage.DISCOVER)


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def sessions(request: pytest.FixtureRequest) -> AsyncGenerator[SkillSessions]:
    if request.param == "fake":
        yield FakeSkillSessions()
        return
    shelf = request.getfixturevalue(
        "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    )
    databases = Databases(shelf)
    yield SqlSkillSessions(await databases.open(VERSIONS), FixedClock())
    await databases.aclose()


async def test_a_first_turn_has_no_predecessor(sessions: SkillSessions) -> None:
    assert await sessions.previous(a_skill_turn()) is None


async def test_a_turn_reads_what_the_one_before_left(sessions: SkillSessions) -> None:
    await sessions.record(a_skill_turn(), LEFT)
    assert await sessions.previous(a_skill_turn("turn-2")) == LEFT


async def test_a_retry_reads_the_same_predecessor(sessions: SkillSessions) -> None:
    await sessions.record(a_skill_turn(), LEFT)
    await sessions.record(a_skill_turn("turn-2"), LATER)
    await sessions.record(a_skill_turn("turn-3"), LATER)
    assert await sessions.previous(a_skill_turn("turn-2")) == LEFT
    assert await sessions.previous(a_skill_turn()) is None


async def test_the_first_record_of_a_turn_stands(sessions: SkillSessions) -> None:
    await sessions.record(a_skill_turn(), LEFT)
    await sessions.record(a_skill_turn(), LATER)
    assert await sessions.previous(a_skill_turn("turn-2")) == LEFT


async def test_sessions_and_users_do_not_mix(sessions: SkillSessions) -> None:
    await sessions.record(a_skill_turn(), LEFT)
    assert await sessions.previous(a_skill_turn("turn-2", session_id="session-2")) is None
    assert await sessions.previous(a_skill_turn("turn-2", user_id="somebody")) is None
    await sessions.record(a_skill_turn(user_id="somebody"), LATER)
    assert await sessions.previous(a_skill_turn("turn-2")) == LEFT


async def test_skills_are_added_to_their_turn_once(sessions: SkillSessions) -> None:
    await sessions.record(a_skill_turn(), LEFT)
    for _ in range(2):
        await sessions.add_skills(a_skill_turn(), ("core.portfolio", "trade.spot"))
    await sessions.add_skills(a_skill_turn("turn-9"), ("nothing",))
    after = await sessions.previous(a_skill_turn("turn-2"))
    assert after is not None
    assert after.skill_ids == ("trade.spot", "minara.core", "core.portfolio")
    assert after.assets == LEFT.assets
