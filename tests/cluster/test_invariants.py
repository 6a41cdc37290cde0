"""What the other tests rely on: damage of any kind is found."""

from collections.abc import Mapping

import pytest

from support.cluster_invariants import assert_sound
from support.cluster_people import a_talk
from support.cluster_stages import MakeCluster
from support.cluster_tables import write

_FIRST = "(SELECT min(turn_id) FROM {})"
PLANTED = (
    (
        "workspace",
        "DELETE FROM turns WHERE turn_number = 1",
        "was told as turn_completed and is recorded as nothing",
    ),
    (
        "orchestrator",
        f"DELETE FROM turn_events WHERE sequence = 2 AND turn_id = {_FIRST.format('turns')}",
        "has the events",
    ),
    (
        "orchestrator",
        f"DELETE FROM turn_events WHERE is_terminal AND turn_id = {_FIRST.format('turns')}",
        "has 0 ends",
    ),
    (
        "tools",
        "UPDATE tool_calls SET is_finished = false WHERE tool_name = 'buy_token'",
        "never ended and has left an action",
    ),
    ("tools", "UPDATE audit_records SET outcome = 'done' WHERE sequence = 1", "audit of tools"),
    ("tools", "UPDATE ledger_balances SET amount = '1' WHERE asset = 'USDC'", "ledger: "),
    ("paper", "DELETE FROM paper_orders", "is closed without an order"),
)


async def test_every_kind_of_damage_is_found(
    urls: Mapping[str, str], make_cluster: MakeCluster
) -> None:
    cluster = make_cluster(urls)
    await cluster.start()
    async with a_talk(cluster, 1) as crowd:
        await assert_sound(cluster, crowd.people)
        await cluster.terminate()
        for name, statement, finding in PLANTED:
            await write(urls[name], statement)
            with pytest.raises(AssertionError, match=finding):
                await assert_sound(cluster, crowd.people)
        silent = crowd.people[0]
        silent.yes.clear()
        with pytest.raises(AssertionError, match="nobody said yes"):
            await assert_sound(cluster, crowd.people)
