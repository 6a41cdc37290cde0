"""The database of all services goes away under load and comes back: callers hear so, everybody
recovers by themselves, and nothing is half written."""

import pytest

from minara_core.clock import pause
from support.cluster_stages import Stage

PEOPLE = 10
AWAY_SECONDS = 3.0
FROZEN_SECONDS = 10.0
RECOVERED_WITHIN_SECONDS = 30.0
"""Promised are 15; the machine of a test may be busy."""
MAY_FAIL = {"DATABASE_UNAVAILABLE", "PEER_UNAVAILABLE", "NOT_RECORDED", "DEADLINE_EXCEEDED"}


@pytest.mark.timeout(300)
async def test_crashes_and_restarts_of_the_database_are_outlived(stage: Stage) -> None:
    pids = [replica.pid for replica in stage.cluster.replicas]
    async with stage.crowd(PEOPLE) as crowd:
        for mode in ("immediate", "fast"):
            await stage.postgres.stop(mode)
            await pause(AWAY_SECONDS)
            await stage.postgres.start()
            recovery = await stage.answers_again()
            assert recovery < RECOVERED_WITHIN_SECONDS
            all_again = await crowd.goes_on()
            print(f"\n{mode}: {recovery:.1f} s until it answered, {all_again:.1f} s until to all")
    assert [replica.pid for replica in stage.cluster.replicas if replica.is_alive] == pids
    assert set(crowd.failures) <= MAY_FAIL


@pytest.mark.timeout(300)
async def test_a_frozen_database_keeps_nobody_waiting_for_ever(stage: Stage) -> None:
    pids = [replica.pid for replica in stage.cluster.replicas]
    async with stage.crowd(PEOPLE) as crowd:
        stage.postgres.freeze()
        await pause(FROZEN_SECONDS)
        stage.postgres.thaw()
        recovery = await stage.answers_again()
        assert recovery < RECOVERED_WITHIN_SECONDS
        all_again = await crowd.goes_on()
        print(f"\n{recovery:.1f} s until it answered, {all_again:.1f} s until to all")
    assert [replica.pid for replica in stage.cluster.replicas if replica.is_alive] == pids
    assert set(crowd.failures) <= MAY_FAIL
