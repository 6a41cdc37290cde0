"""ModelPreferences: one suite for the fake and for the real one on both databases."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from minara_core.ids import UserId
from minara_orchestrator.adapters.sql_model_preferences import SqlModelPreferences
from minara_orchestrator.adapters.sql_turns import VERSIONS
from minara_orchestrator.app.ports import ModelPreferences
from support.databases import Databases
from support.orchestrator.storage import FakePreferences

ADA, BOB = UserId("ada"), UserId("bob")


@pytest.fixture(params=["fake", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def preferences(request: pytest.FixtureRequest) -> AsyncGenerator[ModelPreferences]:
    if request.param == "fake":
        yield FakePreferences()
        return
    shelf = request.getfixturevalue(
        "sqlite_shelf" if request.param == "sqlite" else "postgres_shelf"
    )
    databases = Databases(shelf)
    yield SqlModelPreferences(await databases.open(VERSIONS))
    await databases.aclose()


async def test_nothing_is_chosen_at_first(preferences: ModelPreferences) -> None:
    assert await preferences.get(ADA) == ""


async def test_a_choice_is_its_persons_alone(preferences: ModelPreferences) -> None:
    await preferences.set(ADA, "openai:gpt-6-sol")
    assert await preferences.get(ADA) == "openai:gpt-6-sol"
    assert await preferences.get(BOB) == ""


async def test_the_newest_choice_stands_and_an_empty_one_forgets(
    preferences: ModelPreferences,
) -> None:
    for choice in ("openai:gpt-6-sol", "openai:gpt-6-sol", "xai:grok-4.5"):
        await preferences.set(ADA, choice)
    assert await preferences.get(ADA) == "xai:grok-4.5"
    await preferences.set(ADA, "")
    assert await preferences.get(ADA) == ""


async def test_two_choices_at_once_leave_one_of_them(preferences: ModelPreferences) -> None:
    choices = [f"ollama:model-{number}" for number in range(8)]
    async with asyncio.TaskGroup() as group:
        for choice in choices:
            group.create_task(preferences.set(ADA, choice))
    assert await preferences.get(ADA) in choices
