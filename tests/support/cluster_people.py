"""People who talk to a cluster all at once, each in a little conversation, while things happen."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from minara_core.clock import SystemClock
from minara_core.ids import PendingActionId, RandomIds, UserId
from minara_core.taxonomy import Scope
from minara_gateway.store import Caller, GatewayStore
from minara_runtime.database import Database
from support.cluster import Cluster
from support.cluster_client import FailoverClient, GaveUp, Refused, Told
from support.eventually import eventually

_WAIT_SECONDS = 90.0
_FIRST_AMOUNT = 20
"""A purchase that repeats another is not decided by a typed word."""


@dataclass
class Person:
    """`yes` are the actions they said yes to, `answers` what they were told of them."""

    user_id: UserId
    client: FailoverClient
    types: bool
    told: list[Told] = field(default_factory=list[Told])
    yes: list[PendingActionId] = field(default_factory=list[PendingActionId])
    answers: dict[PendingActionId, str] = field(default_factory=dict[PendingActionId, str])
    faults: list[str] = field(default_factory=list[str])
    conversations: int = 0
    is_leaving: bool = False

    async def talk(self) -> None:
        """A price, a purchase and a yes, what they have now; what fails is not asked again. Who is
        leaving goes after the next answer, and owes none to a preview."""
        try:
            price = await self._ask("price of ETH")
            if not self.is_leaving:
                await self._buy(price.session_id)
            if not self.is_leaving:
                await self._ask("my portfolio", price.session_id)
        except (Refused, GaveUp) as fault:
            self.faults.append(f"{self.user_id}: {type(fault).__name__}: {fault}")
        self.conversations += 1

    async def _buy(self, session_id: str) -> None:
        amount = _FIRST_AMOUNT + self.conversations
        bought = await self._ask(f"buy ${amount} of ETH", session_id)
        requested = bought.fields_of("approval_requested")
        if requested and bought.end == "turn_completed" and requested[-1].get("action"):
            await self._say_yes(requested[-1]["action"], bought.session_id)

    async def _ask(self, message: str, session_id: str = "", shown: str = "") -> Told:
        told = await self.client.ask(message, session_id=session_id, shown_action_id=shown)
        self.told.append(told)
        return told

    async def _say_yes(self, action: dict[str, str], session_id: str) -> None:
        action_id = PendingActionId(action["pending_action_id"])
        self.yes.append(action_id)
        if self.types:
            told = await self._ask("yes", session_id, action_id)
            decided = told.fields_of("action_decided")
            self.answers[action_id] = decided[-1]["action"]["state"] if decided else ""
            return
        path = f"/v1/approvals/{action_id}:confirm"
        answer = await self.client.call("POST", path, {"action_hash": action["action_hash"]})
        self.answers[action_id] = answer["state"]
        if answer["turn_id"]:
            self.told.append(await self.client.watch(answer["turn_id"]))


@dataclass
class Crowd:
    """Everybody who talks to a cluster."""

    people: Sequence[Person]
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def begin(self) -> None:
        """All of them talk, one conversation after the other, until `end`."""
        self._tasks = [asyncio.create_task(self._talk_on(person)) for person in self.people]

    async def has_begun(self) -> None:
        """Wait until everybody has seen the end of a turn."""
        await eventually(
            lambda: all(person.told for person in self.people), timeout=_WAIT_SECONDS, every=0.05
        )

    async def goes_on(self) -> float:
        """Wait until everybody has begun a turn and seen its end; the seconds that took."""
        clock = SystemClock()
        begin = clock.monotonic()
        before = [len(person.told) for person in self.people]

        def have_been_told() -> bool:
            return all(
                len(person.told) >= count + 2
                for person, count in zip(self.people, before, strict=True)
            )

        await eventually(have_been_told, timeout=_WAIT_SECONDS, every=0.05)
        return clock.monotonic() - begin

    async def end(self) -> None:
        """Let everybody hear the end of what they asked, and leave."""
        for person in self.people:
            person.is_leaving = True
        for task in self._tasks:
            await task

    async def _talk_on(self, person: Person) -> None:
        while not person.is_leaving:
            await person.talk()

    @property
    def told(self) -> list[Told]:
        return [told for person in self.people for told in person.told]

    @property
    def faults(self) -> list[str]:
        return [fault for person in self.people for fault in person.faults]

    @property
    def failures(self) -> Counter[str]:
        """Reasons of failed turns."""
        return Counter(told.failure for told in self.told if told.failure)

    @property
    def notices(self) -> Counter[str]:
        """What turns said they had to do without."""
        return Counter(
            notice
            for told in self.told
            for started in told.fields_of("turn_started")
            for notice in started["notices"]
        )

    @property
    def failed_calls(self) -> Counter[str]:
        """Reasons of tool calls that failed or were denied."""
        results = [
            finished["result"]
            for told in self.told
            for finished in told.fields_of("tool_call_finished")
        ]
        return Counter(
            f"{kind}: {result[kind].get('reason') or result[kind].get('message', '')}"
            for result in results
            for kind in ("failure", "denial")
            if kind in result
        )

    def figures(self) -> str:
        """One line about everything they were told."""
        told = self.told
        silent = max(told, key=lambda one: one.pause_seconds, default=Told())
        met = sum((person.client.met for person in self.people), Counter[str]())
        return (
            f"{len(told)} turns of {len(self.people)} people, {sum(t.cuts for t in told)} cut and "
            f"resumed, failed {dict(self.failures)}, without a peer {dict(self.notices)}, "
            f"calls failed {dict(self.failed_calls)}, met {dict(met)}, longest turn "
            f"{max((t.seconds for t in told), default=0):.1f} s, longest silence "
            f"{silent.pause_seconds:.1f} s before {silent.pause_before} of {silent.turn_id}, "
            f"{sum(len(p.yes) for p in self.people)} purchases"
        )


@asynccontextmanager
async def a_crowd(cluster: Cluster, size: int) -> AsyncGenerator[Crowd]:
    """So many new people, each with a token of their own."""
    store = GatewayStore(Database.open(cluster.database_url("gateway")), SystemClock())
    people = [await _arrived(cluster, store, number) for number in range(size)]
    await store.aclose()
    try:
        yield Crowd(people)
    finally:
        for person in people:
            await person.client.aclose()


@asynccontextmanager
async def a_talk(cluster: Cluster, size: int) -> AsyncGenerator[Crowd]:
    """So many new people, who have had one conversation each when the body begins."""
    async with a_crowd(cluster, size) as crowd:
        async with asyncio.TaskGroup() as group:
            for person in crowd.people:
                group.create_task(person.talk())
        yield crowd


async def _arrived(cluster: Cluster, store: GatewayStore, number: int) -> Person:
    user_id = UserId(f"person-{RandomIds().new()}")
    token = secrets.token_urlsafe(24)
    caller = Caller(user_id=user_id, scopes=frozenset(Scope), is_interactive=True)
    await store.add_token(token, caller, name="test")
    gateways = cluster.gateways()
    client = FailoverClient(gateways, token, first=number % len(gateways))
    return Person(user_id=user_id, client=client, types=number % 4 < 2)
