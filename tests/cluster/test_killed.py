"""One replica of a service dies under load: the others carry on, and it is missed by nobody for
longer than is written down."""

import signal

import pytest

from support.cluster import SERVICES, Readiness
from support.cluster_stages import Stage
from support.eventually import eventually

PEOPLE = 8
ENDS_WITHIN_SECONDS = 45.0
"""A dead orchestrator's lease, its session's lease, and the next look for what it left."""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("service", SERVICES)
async def test_a_killed_replica_is_replaced_by_the_other(stage: Stage, service: str) -> None:
    killed, other = stage.cluster.replicas_of(service)
    async with stage.crowd(PEOPLE) as crowd:
        killed.kill()
        assert (await killed.ended()).code == -signal.SIGKILL
        assert await killed.readiness() is Readiness.UNREACHABLE
        await eventually(stage.sees_everybody, timeout=30, every=0.1)
        outage = await crowd.goes_on()
        await killed.restart()
        assert (await other.terminate()).code == 0
        alone = await crowd.goes_on()
        await other.restart()
        print(f"\n{service}: {outage:.1f} s until all went on, {alone:.1f} s with the new one")
    assert crowd.failures == {}
    assert max(told.pause_seconds for told in crowd.told) < ENDS_WITHIN_SECONDS
