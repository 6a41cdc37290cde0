"""A replica stands still for longer than every lease, or cannot be reached, and comes back: others
take over what it had, and what it then writes late does no harm."""

import pytest

from minara_core.clock import pause
from support.cluster import SERVICES
from support.cluster_stages import IS_THOROUGH, Stage
from support.proxy import Wire

PEOPLE = 8
STALL_SECONDS = 20.0
LONGER_THAN_A_KEEP_ALIVE_SECONDS = 17.0
LEFT_OUT_WITHIN_SECONDS = 25.0
"""Who does not answer pings is left after 15; then the call is made elsewhere."""
STALLS = [SERVICES, *([one] for one in SERVICES if IS_THOROUGH)]
MAY_FAIL = {"DEADLINE_EXCEEDED", "NOT_RECORDED", "PEER_UNAVAILABLE"}
"""What a turn may end with whose orchestrator's peer stood still."""


@pytest.mark.timeout(200)
@pytest.mark.parametrize("services", STALLS, ids="+".join)
async def test_replicas_that_stood_still_do_no_harm_when_they_wake(
    stage: Stage, services: list[str]
) -> None:
    stalled = [stage.cluster.replica(service) for service in services]
    async with stage.crowd(PEOPLE) as crowd:
        for replica in stalled:
            replica.stop()
        await pause(STALL_SECONDS)
        for replica in stalled:
            replica.cont()
        after = await crowd.goes_on()
        print(f"\n{services}: {after:.1f} s until all went on")
    assert set(crowd.failures) <= MAY_FAIL


@pytest.mark.timeout(200)
@pytest.mark.parametrize("wire", [Wire.CUT, *([Wire.REFUSED] if IS_THOROUGH else [])])
async def test_a_replica_that_nobody_reaches_is_left_out(stage: Stage, wire: Wire) -> None:
    """It is whole, and still at work on what it was told to do: nothing of that is done twice."""
    tools = stage.cluster.replica("tools")
    async with stage.crowd(PEOPLE) as crowd:
        tools.partition(wire)
        await pause(LONGER_THAN_A_KEEP_ALIVE_SECONDS)
        meanwhile = await crowd.goes_on()
        tools.heal()
        after = await crowd.goes_on()
        print(f"\n{wire}: {meanwhile:.1f} s until all went on without it, {after:.1f} s with it")
    assert set(crowd.failures) <= {"DEADLINE_EXCEEDED"}
    assert max(told.pause_seconds for told in crowd.told) < LEFT_OUT_WITHIN_SECONDS
