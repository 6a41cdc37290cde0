"""Turns whose orchestrator is killed, or stands still, while each of them is at another point; what
is left of them when another replica has finished them.

Turns are brought to their points from outside: the model holds its answer back, the tools service
or the workspace stands still, or the turn's row is locked, so that nothing more of it is stored.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from minara_core.clock import pause
from minara_core.ids import PendingActionId
from minara_orchestrator.adapters import sql_tables as orchestrator
from minara_runtime.audit_tables import AUDIT_RECORDS
from minara_runtime.database import Database
from minara_tools.adapters import sql_tables as tools
from minara_tools.adapters import venue_paper_tables as paper
from minara_workspace.adapters import sql_tables as workspace
from support.cluster import Replica
from support.cluster_held import HeldProvider, Hold
from support.cluster_invariants import assert_sound
from support.cluster_people import a_crowd
from support.cluster_stages import Stage
from support.eventually import eventually
from support.take_over_points import STEPS, Call, Cut, Point, Story, speak

_NAMES = ("orchestrator", "workspace", "tools", "paper")
_REACHED_SECONDS = 40.0
_PLAYED_SECONDS = 130.0


@asynccontextmanager
async def _stories(stage: Stage, points: Sequence[Point]) -> AsyncGenerator["_Scene"]:
    """A story for each point, and what tells of it. In the end nothing is broken anywhere."""
    async with (
        AsyncExitStack() as stack,
        stage.held_model(speak) as model,
        a_crowd(stage.cluster, len(points)) as crowd,
    ):
        databases = {
            name: Database.open(stage.cluster.database_url(name), pool_size=4) for name in _NAMES
        }
        for database in databases.values():
            stack.push_async_callback(database.aclose)
        stories = [
            Story(point=point, person=person)
            for point, person in zip(points, crowd.people, strict=True)
        ]
        yield _Scene(stage=stage, model=model, databases=databases, stories=stories)
        await assert_sound(stage.cluster, crowd.people)


async def play(stage: Stage, waves: Sequence[Sequence[Point]]) -> tuple[list[Story], list[str]]:
    """One kill for each wave, of the orchestrator that has all of its turns; then each purchase is
    confirmed twice and a further turn is had. The stories, and what the model refused."""
    points = [point for wave in waves for point in wave]
    async with _stories(stage, points) as scene:
        for number, wave in enumerate(waves):
            killed = await scene.of(wave).play(number % 2, _kill)
            await killed.restart()
        for story in scene.stories:
            await _go_on(story)
        for story in scene.stories:
            await _read(story, scene)
    return scene.stories, scene.model.complaints


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """`before` is all that was stored of the turns when their process woke, `after` when it had
    done whatever it then did; `log` is what it said meanwhile."""

    stories: Sequence[Story]
    before: Mapping[str, Sequence[dict[str, Any]]]
    after: Mapping[str, Sequence[dict[str, Any]]]
    log: str


async def stall(stage: Stage, points: Sequence[Point], *, late_seconds: float) -> Stalled:
    """The process with all of these turns stands still until the other one has finished them; then
    it wakes, its model answers, and for some time it may do what it likes."""
    async with _stories(stage, points) as scene:
        stalled = await scene.of(points).play(0, _stall)
        before, said = await scene.stored(), stalled.log_file.stat().st_size
        scene.model.release_all()
        stalled.cont()
        await pause(late_seconds)
        after = await scene.stored()
        for story in scene.stories:
            await _go_on(story)
            await _read(story, scene)
        log = stalled.log_file.read_bytes()[said:].decode(errors="replace")
    return Stalled(stories=scene.stories, before=before, after=after, log=log)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    stage: Stage
    model: HeldProvider
    databases: Mapping[str, Database]
    stories: list[Story]

    def of(self, points: Sequence[Point]) -> "_Wave":
        """The turns of these points."""
        stories = [story for story in self.stories if story.point in points]
        return _Wave(self.stage, self.model, self.databases, stories)

    async def stored(self) -> dict[str, Sequence[dict[str, Any]]]:
        """All rows of the turns."""
        turns = [story.told.turn_id for story in self.stories]
        found: dict[str, Sequence[dict[str, Any]]] = {}
        for service, table in (
            ("orchestrator", orchestrator.TURNS),
            ("orchestrator", orchestrator.TURN_EVENTS),
            ("orchestrator", orchestrator.TURN_CHECKPOINTS),
            ("workspace", workspace.TURNS),
            ("tools", tools.TURNS),
            ("tools", tools.TOOL_CALLS),
            ("tools", tools.PENDING_ACTIONS),
            ("tools", AUDIT_RECORDS),
        ):
            rows = sa.select(table).where(table.c.turn_id.in_(turns))
            ordered = rows.order_by(*table.primary_key.columns)
            found[f"{service}.{table.name}"] = await self.databases[service].read(
                lambda c, ordered=ordered: [dict(row) for row in c.execute(ordered).mappings()]
            )
        return found


Strike = Callable[[Stage, Replica], Awaitable[None]]


async def _kill(stage: Stage, replica: Replica) -> None:
    replica.kill()
    await replica.ended()


async def _stall(stage: Stage, replica: Replica) -> None:
    """It stands still, and what it has asked of the workspace is lost."""
    replica.stop()
    for each in stage.cluster.replicas_of("workspace"):
        each.kill()
        await each.ended()
    for each in stage.cluster.replicas_of("workspace"):
        await each.restart()


class _Wave:
    def __init__(
        self,
        stage: Stage,
        model: HeldProvider,
        databases: Mapping[str, Database],
        stories: Sequence[Story],
    ) -> None:
        self._stage = stage
        self._model = model
        self._databases = databases
        self._stories = stories

    async def play(self, index: int, strike: Strike) -> Replica:
        """Bring all turns to their points in one process, strike it, and see all of them to their
        ends in the other one. The process that was struck."""
        replicas = self._stage.cluster.replicas_of("orchestrator")
        struck, other = replicas[index], replicas[1 - index]
        if other.is_alive:
            await other.terminate()
        async with asyncio.timeout(_PLAYED_SECONDS), asyncio.TaskGroup() as asking:
            for story in self._stories:
                point = story.point
                self._model.hold(point.word, point.place, point.cut.hold)
                asking.create_task(self._ask(story))
            await eventually(self._are_held, timeout=_REACHED_SECONDS, every=0.05)
            await other.restart()
            await self._cut(struck, strike)
        return struck

    async def _cut(self, struck: Replica, strike: Strike) -> None:
        async with AsyncExitStack() as until_struck:
            await self._close(self._with(Cut.CLOSING, Cut.COMMITTED), until_struck)
            await self._send(self._with(Cut.ASKED, Cut.RECORDED), until_struck)
            await self._lose(self._with(Cut.RECORDED, Cut.COMMITTED), until_struck)
            for story in self._stories:
                story.owners = [await self._owner(story)]
                story.before = await _calls(self._databases, story)
            await strike(self._stage, struck)

    async def _ask(self, story: Story) -> None:
        message = f"buy $50 of ETH and write its price to the file {story.point.word}"
        story.person.told.append(story.told)
        await story.person.client.ask(message, told=story.told)

    def _with(self, *cuts: Cut) -> list[Story]:
        return [story for story in self._stories if story.point.cut in cuts]

    def _are_held(self) -> bool:
        return all(self._is_held(story) for story in self._stories)

    def _is_held(self, story: Story) -> bool:
        """Also what was said before it is held was told."""
        word, place = story.point.word, story.point.place
        texts = 0 if story.point.cut.hold is Hold.BEFORE else 1
        begun = [f"Step {place}," in each["text"] for each in story.told.fields_of("text_delta")]
        return self._model.is_held(word, place) and sum(begun) >= texts

    async def _close(self, stories: Sequence[Story], until_struck: AsyncExitStack) -> None:
        """Let them end while the workspace stands still."""
        if not stories:
            return
        _stand_still(self._stage.cluster.replicas_of("workspace"), until_struck)
        self._release(stories)
        for story in stories:
            await self._until(self._is_closing, story)

    async def _send(self, stories: Sequence[Story], until_struck: AsyncExitStack) -> None:
        """Let them send their calls while the tools service stands still."""
        if not stories:
            return
        _stand_still(self._stage.cluster.replicas_of("tools"), until_struck)
        self._release(stories)
        for story in stories:

            def has_begun(story: Story = story) -> bool:
                begun = story.told.fields_of("tool_call_started")
                return len(begun) > story.point.place

            await eventually(has_begun, timeout=_REACHED_SECONDS, every=0.05)

    async def _lose(self, stories: Sequence[Story], until_struck: AsyncExitStack) -> None:
        """Let the peers record what they were asked, and nothing of it be stored here."""
        if not stories:
            return
        turns = [story.told.turn_id for story in stories]
        locked = _locked(self._stage.cluster.database_url("orchestrator"), turns)
        await until_struck.enter_async_context(locked)
        for service in ("tools", "workspace"):
            for replica in self._stage.cluster.replicas_of(service):
                replica.cont()
        for story in stories:
            is_there = self._is_committed if story.point.cut is Cut.COMMITTED else self._is_recorded
            await self._until(is_there, story)

    def _release(self, stories: Sequence[Story]) -> None:
        for story in stories:
            self._model.release(story.point.word, story.point.place)

    async def _until(self, holds: Any, story: Story) -> None:
        async def check() -> bool:
            return await holds(story)

        await eventually(check, timeout=_REACHED_SECONDS, every=0.05)

    async def _is_closing(self, story: Story) -> bool:
        found = sa.select(orchestrator.TURNS.c.is_closing).where(
            orchestrator.TURNS.c.turn_id == story.told.turn_id
        )
        return await self._databases["orchestrator"].read(lambda c: c.execute(found).scalar_one())

    async def _is_recorded(self, story: Story) -> bool:
        calls = await _calls(self._databases, story)
        return len([call for call in calls if call.is_finished]) > story.point.place

    def _has_gone_on(self, story: Story) -> bool:
        """A process goes on at once with results it has; it waits for them to be stored before it
        changes anything else."""
        following = story.point.place + 1
        return following == STEPS or self._model.attempts(story.point.word, following) > 0

    async def _is_committed(self, story: Story) -> bool:
        found = sa.select(sa.func.count()).where(workspace.TURNS.c.turn_id == story.told.turn_id)
        return bool(
            await self._databases["workspace"].read(lambda c: c.execute(found).scalar_one())
        )

    async def _owner(self, story: Story) -> str:
        return (await _turn(self._databases, story)).owner


def _stand_still(replicas: Sequence[Replica], until_struck: AsyncExitStack) -> None:
    for replica in replicas:
        replica.stop()
        until_struck.callback(replica.cont)


@asynccontextmanager
async def _locked(url: str, turn_ids: Sequence[str]) -> AsyncGenerator[None]:
    """Nothing of these turns is stored while the body runs."""
    rows = sa.select(orchestrator.TURNS).where(orchestrator.TURNS.c.turn_id.in_(turn_ids))
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    try:
        async with engine.begin() as connection:
            await connection.execute(rows.with_for_update())
            yield
    finally:
        await engine.dispose()


async def _go_on(story: Story) -> None:
    """Confirm what waits, twice, and say something more."""
    requested = story.told.fields_of("approval_requested")
    story.waiting = [each["action"]["pending_action_id"] for each in requested]
    person = story.person
    for each in requested[:1]:
        action = each["action"]
        action_id = PendingActionId(action["pending_action_id"])
        person.yes.append(action_id)
        path = f"/v1/approvals/{action_id}:confirm"
        for _ in range(2):
            answer = await person.client.call("POST", path, {"action_hash": action["action_hash"]})
            story.answers.append(answer["state"])
            if answer["turn_id"] and len(story.answers) == 1:
                person.told.append(await person.client.watch(answer["turn_id"]))
        person.answers[action_id] = story.answers[-1]
    story.next = await person.client.ask("thank you", session_id=story.told.session_id)
    person.told.append(story.next)


async def _read(story: Story, scene: _Scene) -> None:
    model, databases, stage = scene.model, scene.databases, scene.stage
    turn = await _turn(databases, story)
    story.owners.append(turn.owner)
    story.take_overs = turn.take_overs
    story.calls = await _calls(databases, story)
    story.asked = [model.attempts(story.point.word, place) for place in range(STEPS)]
    folder = stage.cluster.data_dir / "sandbox" / "files" / story.person.user_id
    story.files = sorted(path.name for path in folder.glob("*")) if folder.exists() else []
    audited = sa.select(AUDIT_RECORDS.c.subject).where(
        AUDIT_RECORDS.c.turn_id == story.told.turn_id, AUDIT_RECORDS.c.kind == "tool_call"
    )
    story.audited = Counter(
        await databases["tools"].read(lambda c: c.execute(audited).scalars().all())
    )
    mine = sa.select(paper.ACCOUNTS.c.account).where(
        paper.ACCOUNTS.c.user_id == story.person.user_id
    )
    orders = sa.select(sa.func.count()).where(paper.ORDERS.c.account.in_(mine))
    story.orders = await databases["paper"].read(lambda c: c.execute(orders).scalar_one())


async def _turn(databases: Mapping[str, Database], story: Story) -> Any:
    found = sa.select(orchestrator.TURNS).where(orchestrator.TURNS.c.turn_id == story.told.turn_id)
    return await databases["orchestrator"].read(lambda c: c.execute(found).one())


async def _calls(databases: Mapping[str, Database], story: Story) -> list[Call]:
    found = sa.select(tools.TOOL_CALLS).where(tools.TOOL_CALLS.c.turn_id == story.told.turn_id)
    rows = await databases["tools"].read(
        lambda c: c.execute(found.order_by(tools.TOOL_CALLS.c.tool_call_id)).all()
    )
    return [
        Call(
            tool_call_id=row.tool_call_id,
            name=row.tool_name,
            is_finished=row.is_finished,
            result_json=row.result_json,
        )
        for row in rows
    ]
