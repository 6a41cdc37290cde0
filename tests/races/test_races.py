"""Two things at once about one move: whoever is second changes nothing, and the venue hears once.

Each race is run 200 times on SQLite and 200 times by two replicas over PostgreSQL; `RACES=1000`
runs more.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest

from minara_core.actions import ActionState
from minara_core.reasons import DenialReason, ErrorReason
from minara_runtime.database import Dialect
from minara_tools.domain.approvals import LIFETIME
from minara_tools.domain.operations import OperationState
from minara_tools.domain.outcomes import ToolCallBlockedError
from support.databases import Databases
from support.eventually import eventually
from support.tools.races import AT_ONCE, Answer, Arena, Person, RaceSettings, an_arena

DONE = ActionState.DONE
USED = ErrorReason.CONFIRMATION_USED
SECOND = timedelta(seconds=1)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def data_dir(tmp_path: Path) -> Generator[Path]:
    """In memory where there is such a place: the counter file's wait for the disk is no race."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
async def arena(databases: Databases, dialect: Dialect, data_dir: Path) -> Arena:
    return await an_arena(databases, data_dir, replicas=dialect == "postgresql")


async def test_two_confirmations_of_one_action_send_one_order(arena: Arena) -> None:
    async def race(person: Person) -> tuple[Answer, ...]:
        action = await person.preview()
        answers = await person.against(
            action,
            lambda: person.confirm(arena.left, action),
            lambda: person.confirm(arena.right, action),
        )
        assert answers == (DONE, DONE)
        assert person.was_sent(action)
        return answers

    await arena.run(race, name="twice")


async def test_of_a_yes_and_a_no_the_first_wins_and_the_other_is_told(arena: Arena) -> None:
    async def race(person: Person) -> tuple[Answer, ...]:
        action = await person.preview()
        answers = await person.against(
            action,
            lambda: person.confirm(arena.left, action),
            lambda: person.reject(arena.right, action),
        )
        assert answers in {(DONE, USED), (USED, ActionState.REJECTED)}
        assert person.was_sent(action) is (answers[0] is DONE)
        return answers

    seen = await arena.run(race, name="reject")
    assert seen[DONE]
    assert seen[ActionState.REJECTED]


async def test_of_a_yes_and_a_newer_preview_the_first_wins(arena: Arena) -> None:
    async def race(person: Person) -> tuple[Answer, ...]:
        old = await person.preview()

        async def preview_again() -> Answer:
            return (await person.preview(turn="turn-2", amount="60")).state

        answers = await person.against(old, lambda: person.confirm(arena.right, old), preview_again)
        assert answers in {(DONE, ActionState.PENDING), (USED, ActionState.PENDING)}
        assert person.was_sent(old) is (answers[0] is DONE)
        left = await person.stored(old)
        assert left is (DONE if answers[0] is DONE else ActionState.SUPERSEDED)
        return answers

    seen = await arena.run(race, name="supersede")
    assert seen[DONE]
    assert seen[USED]


async def test_of_a_yes_and_the_end_of_its_time_the_first_wins(arena: Arena) -> None:
    async def crowd(number: int) -> Counter[Answer]:
        people = [arena.person("expire", number + one) for one in range(AT_ONCE)]
        actions = [await person.preview() for person in people]
        arena.clock.advance(LIFETIME - SECOND)

        async def let_time_pass() -> None:
            if number // AT_ONCE % 2:
                await eventually(lambda: any(map(Person.was_sent, people, actions)), timeout=30.0)
            arena.clock.advance(SECOND)
            await arena.left.money.recovery.expire_overdue()

        async with asyncio.TaskGroup() as tasks:
            answers = [
                tasks.create_task(person.confirm(arena.right, action))
                for person, action in zip(people, actions, strict=True)
            ]
            tasks.create_task(let_time_pass())
        for person, action, answer in zip(people, actions, answers, strict=True):
            is_done = answer.result() is DONE
            assert answer.result() in {DONE, ErrorReason.CONFIRMATION_EXPIRED}
            assert person.was_sent(action) is is_done
            assert await person.stored(action) is (DONE if is_done else ActionState.EXPIRED)
        return Counter(answer.result() for answer in answers)

    seen = Counter[Answer]()
    for number in range(0, RaceSettings().races, AT_ONCE):
        seen.update(await crowd(number))
    await arena.check()
    assert seen[DONE]
    assert seen[ErrorReason.CONFIRMATION_EXPIRED]


async def test_of_two_moves_under_one_cap_exactly_one_is_sent(arena: Arena) -> None:
    async def race(person: Person) -> tuple[Answer, ...]:
        limits = arena.left.money.limits
        await limits.update(person.user_id, preset="", values={"max_day_usd": "80"})
        one, other = await person.preview(), await person.preview(amount="60", call="1.1")
        answers = await person.against(
            one,
            lambda: person.confirm(arena.left, one),
            lambda: person.confirm(arena.right, other),
        )
        assert sorted(answers) == [DONE, ActionState.VOIDED]
        void = one if answers[0] is ActionState.VOIDED else other
        outcome = (await arena.left.stored(void)).outcome
        assert outcome is not None
        assert outcome.reason == DenialReason.DAILY_CAP_REACHED
        assert person.was_sent(one) is not person.was_sent(other)
        return answers

    await arena.run(race, name="cap")


async def test_after_a_halt_has_answered_nothing_new_reaches_the_venue(arena: Arena) -> None:
    async def race(person: Person) -> tuple[Answer, ...]:
        action = await person.preview()
        known_by_halt: list[bool] = []

        async def halt() -> Answer:
            report = await arena.right.money.control.halt(person.user_id, "stop")
            on_its_way = {
                one.operation_id for one in report.unsettled if one.state is OperationState.SENT
            }
            known_by_halt.append(
                person.was_sent(action) or str(action.pending_action_id) in on_its_way
            )
            return ActionState.REJECTED

        answers = await person.against(action, lambda: person.confirm(arena.left, action), halt)
        assert answers[0] in {DONE, USED, ActionState.VOIDED}
        assert person.was_sent(action) is (answers[0] is DONE)
        assert known_by_halt[0] or not person.was_sent(action)
        with pytest.raises(ToolCallBlockedError, match="halted"):
            await person.asks(turn="turn-2")
        return answers[:1]

    seen = await arena.run(race, name="halt")
    assert seen[DONE]
    assert seen[USED] + seen[ActionState.VOIDED]
