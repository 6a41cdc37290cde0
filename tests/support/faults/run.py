"""One run: a plan played to its end, and what was found."""

import asyncio
import traceback
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from minara_core.actions import ActionState, PendingAction
from minara_core.clock import SystemClock, pause
from minara_core.errors import MinaraError
from minara_tools.adapters.venue_paper_http_faults import FaultKind
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.operations import OperationState
from minara_tools.domain.outcomes import ToolFailed
from support.eventually import eventually
from support.faults.checks import findings
from support.faults.children import Child
from support.faults.control import FIRST, SECOND, VENUE
from support.faults.evidence import Evidence, unsettled
from support.faults.lab import Lab
from support.faults.orders import Bug
from support.faults.person import BUY, PRICES, REST, SELL, TRANSFER, Line, a_cancel
from support.faults.plan import LATE, STRAGGLING, Crash, Network, Plan, Resume, Skew
from support.faults.scene import OUTAGE, Scene, a_scene, held_one, rule
from support.faults.tools_process import LEASE, SEND_SECONDS

WISHES = {"buy": BUY, "sell": SELL, "limit": REST, "transfer": TRANSFER}
STUCK_SECONDS = 30.0
_ANSWER_SECONDS = 30.0
_PATIENCE_SECONDS = 4.0
_PAST_PROOF = 36.0
_NEXT_LOOK = 3.0
_A_TICK = 0.1
_LOOKED_FOR_SECONDS = 0.4
_LOOKS_IN_THIS_MOMENT = 2
_TAKEN_OVER_SECONDS = LEASE.total_seconds() + 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run; `failures` are empty for a good one. `was_met` when its crash point was
    reached, `reached_venue` when a request left for the venue."""

    plan: Plan
    was_met: bool
    reached_venue: bool
    result: str
    seconds: float
    settle_seconds: float
    failures: tuple[str, ...]


async def play(plan: Plan, lab: Lab, bug: Bug = Bug.NONE) -> Outcome:
    """Play a plan. What goes wrong in the harness itself is a failure of the run too."""
    clock = SystemClock()
    begin = clock.monotonic()
    run: Run | None = None
    failures: tuple[str, ...] = ()
    try:
        async with lab.room(plan.database) as room, a_scene(room, lab.nursery, bug) as scene:
            run = Run(plan, scene)
            failures = findings(await run.played())
            if failures:
                failures += tuple(f"log of {one.start.who}: {one.log()}" for one in scene.children)
    except Exception as error:
        failures = ("harness: " + "".join(traceback.format_exception(error)),)
    return Outcome(
        plan=plan,
        was_met=run is not None and run.was_met,
        reached_venue=run is not None and run.reached_venue,
        result=run.result if run is not None else "not begun",
        seconds=round(clock.monotonic() - begin, 2),
        settle_seconds=round(run.settle_seconds, 2) if run is not None else 0.0,
        failures=failures,
    )


def rules_of(plan: Plan) -> list[object]:
    """The plan's network as the venue's switchboard plays it."""
    slow, second = SEND_SECONDS + 0.3, plan.delay_seconds
    hold = rule(FaultKind.HOLD, count=2)
    return {
        Network.FINE: [],
        Network.DROP_REQUEST: [rule(FaultKind.DROP_REQUEST)],
        Network.DROP_REPLY: [rule(FaultKind.DROP_REPLY)],
        Network.DELAY_REQUEST: [rule(FaultKind.DELAY_REQUEST, seconds=second)],
        Network.DELAY_REPLY: [rule(FaultKind.DELAY_REPLY, seconds=second)],
        Network.LATE_REQUEST: [hold],
        Network.LATE_TWICE: [hold, rule(FaultKind.PROCESS_TWICE, seconds=second)],
        Network.SLOW_REPLY: [rule(FaultKind.DELAY_REPLY, seconds=slow)],
        Network.TWICE: [rule(FaultKind.PROCESS_TWICE)],
        Network.TWICE_LATE: [rule(FaultKind.PROCESS_TWICE, seconds=second)],
        Network.TWICE_UNANSWERED: [
            rule(FaultKind.PROCESS_TWICE, seconds=second),
            rule(FaultKind.DROP_REPLY),
        ],
        Network.ERROR_BEFORE: [rule(FaultKind.ERROR_BEFORE)],
        Network.ERROR_AFTER: [rule(FaultKind.ERROR_AFTER)],
        Network.REORDER_SECOND: [hold],
        Network.REORDER_CANCEL: [hold, rule(FaultKind.HOLD, "cancel", count=2)],
    }[plan.network]


class Run:
    def __init__(self, plan: Plan, scene: Scene) -> None:
        self.was_met = False
        self.reached_venue = False
        self.result = "not asked"
        self.settle_seconds = 0.0
        self._plan = plan
        self._scene = scene
        self._actions: list[PendingAction] = []
        self._earlier: list[PendingAction] = []
        self._answers: dict[str, list[PendingAction]] = {}
        self._decisions: dict[str, str] = {}
        self._calls: list[asyncio.Task[None]] = []
        self._notes: list[str] = []
        self._victims: set[int] = set()

    async def played(self) -> Evidence:
        """From the preview to the last look."""
        scene, plan = self._scene, self._plan
        first, line, second = await self._begun()
        await self._previews(line)
        await scene.switchboard.set_rules(*rules_of(plan))
        scene.control.set("armed", 1)
        if plan.crash is Crash.NONE:
            self._skew()
        await self._confirmed(line, second or line)
        self.was_met = plan.crash is not Crash.NONE and await self._meets(first)
        living = await self._meanwhile(first, line, second)
        await self._settled()
        if plan.repeats_after:
            for action in self._actions:
                await self._confirm(living, action, scene.person.decision(action))
            await self._settled()
        await self._answered()
        return await self._evidence()

    async def _begun(self) -> tuple[Child, Line, Line | None]:
        """The process that crashes, and on PostgreSQL one more that does not."""
        scene, plan = self._scene, self._plan
        first = await scene.start_tools(FIRST, point=plan.point, is_kill=plan.crash is Crash.KILL)
        if plan.database == "sqlite":
            return first, await scene.line_to(first), None
        second = await scene.start_tools(SECOND)
        return first, await scene.line_to(first), await scene.line_to(second)

    async def _previews(self, line: Line) -> None:
        """What the person is asked to confirm, at a price that no jump changes."""
        scene, plan = self._scene, self._plan
        await scene.switchboard.set_prices(PRICES)
        wish = a_cancel(await self._resting(line)) if plan.move == "cancel" else WISHES[plan.move]
        wishes = [wish]
        if plan.network is Network.REORDER_SECOND:
            wishes.append(BUY if wish is SELL else SELL)
        for number, one in enumerate(wishes):
            action = await scene.person.ask(line, f"turn-{number}", one)
            self._actions.append(action)
            self._decisions[action.pending_action_id] = scene.person.decision(action)

    async def _resting(self, line: Line) -> str:
        """The id of an order that rests at the venue."""
        action = await self._scene.person.ask(line, "turn-of-the-order", REST)
        self._earlier.append(action)
        await self._confirm(line, action, self._scene.person.decision(action))
        return client_order_id(action.pending_action_id)

    async def _confirmed(self, line: Line, other: Line) -> None:
        """The person's yes, on its way; a second order's goes to the other replica, if any."""
        lines = [line, other]
        for action, one in zip(self._actions, lines, strict=False):
            decision = self._decisions[action.pending_action_id]
            self._spawn(self._confirm(one, action, decision))
        if self._plan.network is Network.REORDER_CANCEL:
            self._spawn(self._cancelled_by_somebody())

    async def _cancelled_by_somebody(self) -> None:
        with suppress(AssertionError, ToolFailed, MinaraError):
            await held_one(self._scene.switchboard)
            client_id = client_order_id(self._actions[0].pending_action_id)
            await self._scene.somebody_else_cancels(client_id)

    async def _confirm(self, line: Line, action: PendingAction, decision: str) -> None:
        try:
            answer = await line.confirm(action, decision, _ANSWER_SECONDS)
        except MinaraError:
            return
        self._answers.setdefault(action.pending_action_id, []).append(answer)

    async def _meets(self, first: Child) -> bool:
        """Whether the crash point was reached, before everything was answered or given up."""
        first_calls = list(self._calls)

        def is_over() -> bool:
            return first.has_met() or all(call.done() for call in first_calls)

        with suppress(AssertionError):
            await eventually(is_over, timeout=_PATIENCE_SECONDS)
        self._scene.control.set("armed", 0)
        if not first.has_met():
            return False
        await first.met()
        return True

    async def _meanwhile(self, first: Child, line: Line, second: Line | None) -> Line:
        """What happens while the move is cut off; the line that answers afterwards."""
        scene, plan = self._scene, self._plan
        if plan.crash is Crash.NONE:
            await self._waits_for_answer()
        await scene.look()
        scene.pass_time(plan.jump_seconds, asleep=FIRST if plan.sleeps else "")
        self._skew()
        if plan.outage_seconds:
            await scene.switchboard.set_rules(*rules_of(plan), *OUTAGE)
        living = second or line
        if self.was_met and plan.crash is Crash.KILL:
            self._victims.add(first.pid)
            living = second or await self._started_again()
        if self.was_met and plan.dies_again:
            await pause(plan.delay_seconds)
            living = await self._started_again()
        if plan.repeats_meanwhile:
            action = self._actions[0]
            self._spawn(self._confirm(living, action, self._decisions[action.pending_action_id]))
        if plan.outage_seconds:
            await pause(plan.outage_seconds)
            await scene.switchboard.set_rules(*rules_of(plan))
        if plan.network in LATE:
            await pause(_LOOKED_FOR_SECONDS)
            await scene.look()
        await scene.switchboard.release()
        if self.was_met and plan.crash is Crash.PAUSE:
            await self._resumed(first, has_other=second is not None)
        return living

    async def _started_again(self) -> Line:
        """One more process in the place of the one that recovered, which is killed."""
        scene = self._scene
        last = scene.children[-1]
        if last.start.who == SECOND:
            self._victims.add(last.pid)
            await last.kill()
        return await scene.line_to(await scene.start_tools(SECOND))

    async def _waits_for_answer(self) -> None:
        """Until there is an answer, or the request is held back on its way."""

        async def is_answered_or_held() -> bool:
            is_held = self._plan.network in LATE
            return all(call.done() for call in self._calls) or (
                is_held and await self._scene.switchboard.held() > 0
            )

        with suppress(AssertionError):
            await eventually(is_answered_or_held, timeout=_PATIENCE_SECONDS)

    async def _resumed(self, first: Child, *, has_other: bool) -> None:
        if has_other and self._plan.resume is Resume.TAKEN_OVER:
            await pause(_TAKEN_OVER_SECONDS)
            await self._scene.look()
        if has_other and self._plan.resume is Resume.SETTLED:
            with suppress(AssertionError):
                await self._settle(_PATIENCE_SECONDS)
        self._scene.control.set("resumed", 1)
        first.go_on()

    def _skew(self) -> None:
        plan = self._plan
        if plan.skew is not Skew.NOBODY:
            who = VENUE if plan.skew is Skew.VENUE else FIRST
            self._scene.skew(who, plan.skew_seconds)

    async def _settled(self) -> None:
        """The venue answers, the clocks agree, and time passes until nothing is in doubt."""
        scene, plan, clock = self._scene, self._plan, SystemClock()
        begin = clock.monotonic()
        if any(scene.control.get(f"skew {one}") for one in (FIRST, VENUE)):
            await scene.look()
        for who in (FIRST, VENUE):
            scene.skew(who, 0.0)
        await scene.switchboard.set_rules()
        await scene.switchboard.release()
        if plan.network in STRAGGLING:
            await pause(plan.delay_seconds + _A_TICK)
        with suppress(AssertionError):
            await self._settle(STUCK_SECONDS)
        self.settle_seconds += clock.monotonic() - begin

    async def _settle(self, seconds: float) -> None:
        """Raises AssertionError when something is in doubt for so long."""
        scene = self._scene
        looks, next_jump = 0, _PAST_PROOF

        async def is_settled() -> bool:
            nonlocal looks, next_jump
            looks += 1
            recorded, orders = await scene.look(), await scene.switchboard.orders()
            if not unsettled(recorded, orders):
                return True
            in_doubt = {OperationState.SENT, OperationState.UNCERTAIN}
            is_in_doubt = any(one.state in in_doubt for one in recorded.books.operations)
            if is_in_doubt and looks > _LOOKS_IN_THIS_MOMENT:
                scene.pass_time(next_jump)
                next_jump = _NEXT_LOOK
            return False

        await eventually(is_settled, timeout=seconds, every=0.15)

    async def _answered(self) -> None:
        """Everybody who asked has an answer, or will never have one."""
        with suppress(AssertionError):
            await eventually(
                lambda: all(call.done() for call in self._calls), timeout=_PATIENCE_SECONDS
            )
        for call in self._calls:
            if not call.done():
                self._notes.append("stuck: a confirmation was not answered")
                call.cancel()
        await self._settled()

    async def _evidence(self) -> Evidence:
        scene = self._scene
        orders, balances = await scene.switchboard.orders(), await scene.balances()
        for child in scene.children:
            seen = await child.seen()
            if seen != "running" and child.pid not in self._victims:
                self._notes.append(f"{child.start.who} is gone: {seen}")
        await scene.end_processes()
        recorded = await scene.look()
        sends = scene.sends()
        wanted = {client_order_id(one.pending_action_id) for one in self._actions}
        self.reached_venue = any(one.client_order_id in wanted for one in sends)
        self.result = self._result_of(recorded.books.actions)
        return Evidence(
            actions=(*self._earlier, *self._actions),
            orders=orders,
            balances=balances,
            recorded=recorded,
            sends=sends,
            voids=scene.voids,
            answers=self._answers,
            audit=await scene.audit(),
            notes=tuple(self._notes),
        )

    def _result_of(self, states: Mapping[str, ActionState]) -> str:
        return " + ".join(states[one.pending_action_id].value for one in self._actions)

    def _spawn(self, work: Awaitable[None]) -> None:
        self._calls.append(asyncio.ensure_future(work))
