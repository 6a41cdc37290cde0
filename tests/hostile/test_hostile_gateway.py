"""Attacks by a hostile model, orchestrator or program on the gateway: each ends in its code, and no
order reaches the venue that a person did not confirm with its preview before them."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from support.attacks.document import ON_GATEWAY
from support.attacks.front import Front, a_front
from support.attacks.table import Attack, cases, name_of_case

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Front]:
    async with a_front(tmp_path_factory.mktemp("hostile") / "data") as made:
        yield made


@pytest.mark.parametrize(("kind", "attack"), cases(ON_GATEWAY), ids=name_of_case)
async def test_an_attack_ends_in_its_code_and_moves_nothing(
    running: Front, kind: str, attack: Attack[Front]
) -> None:
    running.begin()
    code = await attack.play(running)
    assert not running.unconfirmed_orders()
    assert code == attack.code
