"""What several replicas park at once for one call is one action."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from minara_core.errors import Conflict
from minara_core.ids import PendingActionId, RandomIds, TurnId
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.grants import an_installation
from support.tools.scene import Scene, parked_alone


@pytest.fixture
async def scene(databases: Databases, tmp_path: Path) -> Scene:
    return Scene(databases, await databases.url(VERSIONS), tmp_path, an_installation())


async def test_of_the_same_request_parked_by_all_at_once_one_stands(scene: Scene) -> None:
    template = replace(await scene.pending(), turn_id=TurnId("manual:local:request-1"))
    replicas = [await scene.process(name) for name in ("one", "two", "three", "four")]

    async def park(number: int) -> str | None:
        mine = replace(template, pending_action_id=PendingActionId(RandomIds().new()))
        try:
            await replicas[number].money.actions.park(
                mine.user_id, scene.clock.now(), lambda _: parked_alone(mine)
            )
        except Conflict:
            return None
        return mine.pending_action_id

    async with asyncio.TaskGroup() as group:
        tries = [group.create_task(park(number)) for number in range(4)]
    (stored,) = [task.result() for task in tries if task.result() is not None]
    found = await replicas[0].money.actions.of_call(
        template.user_id, template.turn_id, template.tool_call_id
    )
    assert found is not None
    assert found.pending_action_id == stored
