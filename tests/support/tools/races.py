"""Two processes on one database and one venue, and many people who race through them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings

from minara_core.actions import ActionState, PendingAction
from minara_core.clock import pause
from minara_core.errors import Conflict
from minara_core.ids import RandomIds, ToolCallId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import PermissionTier
from minara_tools.app.preview_move import MoveCall
from minara_tools.domain.action_json import action_hash, client_order_id
from minara_tools.domain.approvals import LIFETIME
from minara_tools.main import VERSIONS
from support.actions import an_action
from support.clock import FixedClock
from support.databases import Databases
from support.eventually import eventually
from support.tools.entries import MoveOfEth, a_move_tool
from support.tools.money import Process, a_confirmation, a_money, deciding
from support.tools.venue import FakeVenue
from support.tools_world import a_context

AT_ONCE = 20
"""So many people race beside each other."""
_BEATS = 8
_BEAT_SECONDS = 0.012

Answer = ActionState | ErrorReason


class RaceSettings(BaseSettings):
    """`RACES` is how often each race is run."""

    races: int = Field(default=200, ge=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """`left` and `right` are processes that know nothing of each other."""

    venue: FakeVenue
    clock: FixedClock
    left: Process
    right: Process

    async def run(self, race: "Race", *, name: str, times: int | None = None) -> Counter[Answer]:
        """Run it for `times` people, a crowd at once; how often each answer was given. Checks the
        venue and the books afterwards."""
        number, answers = 0, Counter[Answer]()
        times = RaceSettings().races if times is None else times
        while number < times:
            crowd = [self.person(name, number + n) for n in range(min(AT_ONCE, times - number))]
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(race(person)) for person in crowd]
            for one in running:
                answers.update(one.result())
            number += len(crowd)
        await self.check()
        return answers

    def person(self, name: str, number: int) -> "Person":
        return Person(arena=self, user_id=UserId(f"{name}-{number}"), number=number)

    async def check(self) -> None:
        """No order reached the venue twice, and the books are sound."""
        assert not [one for one, count in Counter(self.venue.sent).items() if count > 1]
        assert await self.left.faults() == ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with money of their own; `number` shifts who of two comes first."""

    arena: Arena
    user_id: UserId
    number: int

    async def preview(
        self, *, turn: str = "turn-1", call: str = "1.0", amount: str = "50"
    ) -> PendingAction:
        """A purchase that waits for the decision."""
        move, clock = self._move(turn, call, amount), self.arena.clock
        assert move.entry.quote is not None
        quotation = await move.entry.quote(move.arguments, move.context)
        action = replace(
            an_action(RandomIds().new()),
            user_id=self.user_id,
            turn_id=move.context.turn_id,
            tool_call_id=move.context.tool_call_id,
            order=quotation.order,
            preview=quotation.preview,
            action_hash=action_hash(quotation.order, quotation.preview),
            create_time=clock.now(),
            expire_time=clock.now() + LIFETIME,
        )
        return await self.arena.left.money.manual.parking.park(action)

    async def asks(self, *, turn: str) -> PendingAction:
        """What the stages make of one more purchase. Raises what they raise."""
        return await self.arena.left.money.preview.action(self._move(turn, "1.0", "50"))

    def _move(self, turn: str, call: str, amount: str) -> MoveCall:
        context = replace(
            a_context(self.user_id),
            turn_id=TurnId(f"{self.user_id}-{turn}"),
            tool_call_id=ToolCallId(call),
        )
        return MoveCall(
            entry=a_move_tool(self.arena.venue),
            arguments=MoveOfEth(symbol="ETH", amount=amount, intent="as asked"),
            context=context,
            ceiling=PermissionTier.ALWAYS_CONFIRM,
            solicited=True,
            read_sources=(),
        )

    async def confirm(self, process: Process, action: PendingAction) -> Answer:
        return await self._decide(process, action, "confirm")

    async def reject(self, process: Process, action: PendingAction) -> Answer:
        return await self._decide(process, action, "reject")

    async def against(
        self,
        action: PendingAction,
        confirm: Callable[[], Awaitable[Answer]],
        other: Callable[[], Awaitable[Answer]],
    ) -> tuple[Answer, Answer]:
        """A yes and something else at once: now one is a little earlier, now the other, and for
        some the other comes when the yes is already under way."""

        async def late(beats: int, act: Callable[[], Awaitable[Answer]]) -> Answer:
            await pause(max(0, beats) * _BEAT_SECONDS)
            return await act()

        async def while_it_runs() -> Answer:
            await eventually(lambda: self._is_decided(action), timeout=30.0, every=0.02)
            return await other()

        shift = self.number % (2 * _BEATS + 1) - _BEATS
        is_behind = self.number % 4 == 0
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(late(0 if is_behind else shift, confirm))
            second = tasks.create_task(while_it_runs() if is_behind else late(-shift, other))
        return first.result(), second.result()

    async def _is_decided(self, action: PendingAction) -> bool:
        return await self.stored(action) is not ActionState.PENDING

    def was_sent(self, action: PendingAction) -> bool:
        """Whether the venue has heard of it."""
        return client_order_id(action.pending_action_id) in self.arena.venue.sent

    async def stored(self, action: PendingAction) -> ActionState:
        return (await self.arena.left.stored(action)).state

    async def _decide(self, process: Process, action: PendingAction, decision: str) -> Answer:
        grant = a_confirmation(action, self.arena.clock, decision)
        decisions = process.money.decisions
        try:
            if decision == "confirm":
                return (await decisions.confirm(grant, deciding(action))).state
            return (await decisions.reject(grant, deciding(action))).state
        except Conflict as refused:
            return refused.reason


Race = Callable[[Person], Coroutine[Any, Any, tuple[Answer, ...]]]


async def an_arena(databases: Databases, data_dir: Path, *, replicas: bool) -> Arena:
    """Two processes; with `replicas` each has its own connections, else they share one engine."""
    clock = FixedClock()
    venue = FakeVenue(clock=clock, name="paper")
    url = await databases.url(VERSIONS)
    database = databases.reopen(url)
    other = databases.reopen(url) if replicas else database
    left = Process(await a_money(database, data_dir, venue, clock, owner="left"), clock, database)
    right = Process(await a_money(other, data_dir, venue, clock, owner="right"), clock, other)
    return Arena(venue=venue, clock=clock, left=left, right=right)
