"""Attacks by a hostile model or orchestrator on the tools service: each ends in its code, and no
order reaches the venue that a person did not confirm."""

from pathlib import Path

import pytest

from support.attacks.document import ON_TOOLS
from support.attacks.scene import Scene, a_scene
from support.attacks.table import Attack, cases, name_of_case
from support.databases import Databases


@pytest.mark.parametrize(("kind", "attack"), cases(ON_TOOLS), ids=name_of_case)
async def test_an_attack_ends_in_its_code_and_moves_nothing(
    sqlite_databases: Databases, tmp_path: Path, kind: str, attack: Attack[Scene]
) -> None:
    async with a_scene(sqlite_databases, tmp_path) as scene:
        code = await attack.play(scene)
        sent = scene.house.venue.sent
        assert set(sent) <= scene.confirmed
        assert len(sent) == len(set(sent))
        assert code == attack.code
