"""Every replica is restarted, one after another, under load: nobody notices."""

import pytest

from support.cluster import SERVICES
from support.cluster_stages import GRACE_SECONDS, Stage

PEOPLE = 50
MODEL_SECONDS = 1.6


@pytest.mark.timeout(300)
async def test_a_rolling_restart_loses_no_turn_and_moves_nothing_twice(stage: Stage) -> None:
    async with stage.crowd(PEOPLE, model_seconds=MODEL_SECONDS) as crowd:
        for service in SERVICES:
            for replica in stage.cluster.replicas_of(service):
                ended = await replica.terminate()
                assert ended.code == 0, replica.tail()
                assert ended.seconds < GRACE_SECONDS + 5
                print(f"{replica.name} left in {ended.seconds:.1f} s")
                replica.start()
                await replica.ready()
    assert crowd.failures == {}
