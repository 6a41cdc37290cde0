"""What must be true of all databases of a cluster once it is quiet again, whatever befell it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from minara.agent.v1 import event_pb2 as event_pb
from minara_core.actions import ActionState
from minara_core.clock import SystemClock
from minara_core.money import add, canonical, subtract
from minara_orchestrator.adapters import sql_tables as orchestrator
from minara_runtime.audit_report import AuditPlace, AuditReport, verify_service
from minara_runtime.database import Database
from minara_tools.adapters import sql_tables as tools
from minara_tools.adapters import venue_paper_tables as paper
from minara_tools.adapters.sql_fund_tables import FUND_ACCOUNTS
from minara_tools.domain.action_json import client_order_id
from minara_tools.domain.ledger_check import check
from minara_tools.domain.operations import OperationState
from minara_workspace.adapters import sql_tables as workspace
from support.cluster import Cluster
from support.cluster_client import TERMINAL
from support.cluster_people import Person
from support.eventually import eventually
from support.faults.evidence import Recorded, VenueOrder, read_recorded, unsettled

_SHOWN = 30
VOIDED = OperationState.VOIDED
SETTLE_SECONDS = 110.0
"""A request that nobody answers for is over, proven absent and void by then."""

Rows = Sequence[Any]

_UNFINISHED_WITH_ACTION = sa.select(tools.TOOL_CALLS).join(
    tools.PENDING_ACTIONS,
    sa.and_(
        tools.PENDING_ACTIONS.c.turn_id == tools.TOOL_CALLS.c.turn_id,
        tools.PENDING_ACTIONS.c.tool_call_id == tools.TOOL_CALLS.c.tool_call_id,
        tools.TOOL_CALLS.c.is_finished == sa.false(),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Everything that is looked at."""

    turns: Rows
    events: Mapping[str, Sequence[tuple[int, bool, str]]]
    recorded_turns: Rows
    sessions: Rows
    left_actions: Rows
    money: Recorded
    orders: Sequence[VenueOrder]
    balances: Mapping[str, Decimal]
    audits: Sequence[AuditReport]


async def assert_sound(cluster: Cluster, people: Sequence[Person]) -> None:
    """Raises AssertionError with every broken promise. Waits for what is promised to end by itself.

    Reads all there is, also what others than `people` left; of theirs it knows what they were told.
    """
    clock = SystemClock()
    begin = clock.monotonic()
    found = await _broken(cluster, people)
    print(f"settled and read in {clock.monotonic() - begin:.1f} s")
    assert not found, "\n".join([f"{len(found)} broken promises", *found[:_SHOWN]])


async def _broken(cluster: Cluster, people: Sequence[Person]) -> list[str]:
    async with AsyncExitStack() as stack:
        databases = {
            name: Database.open(cluster.database_url(name), pool_size=2)
            for name in ("orchestrator", "workspace", "tools", "paper")
        }
        for database in databases.values():
            stack.push_async_callback(database.aclose)
        left: list[str] = []

        async def is_settled() -> bool:
            nonlocal left
            left = await _unsettled(databases)
            return not left

        try:
            await eventually(is_settled, timeout=SETTLE_SECONDS, every=0.5)
        except AssertionError:
            return [f"not over after {SETTLE_SECONDS:.0f} s: {what}" for what in left]
        remains = await _read(cluster, databases)
    return [
        *_of_turns(remains),
        *_of_workspace(remains),
        *_of_calls(remains),
        *_of_money(remains, people),
        *_of_audit(remains),
        *(found for person in people for found in _of_person(remains, person)),
    ]


async def _unsettled(databases: Mapping[str, Database]) -> list[str]:
    running = sa.select(orchestrator.TURNS.c.turn_id).where(
        orchestrator.TURNS.c.is_over == sa.false()
    )
    turns = await databases["orchestrator"].read(lambda c: c.execute(running).scalars().all())
    money = await databases["tools"].read(read_recorded)
    orders = await databases["paper"].read(_orders)
    return [*(f"turn {turn} runs" for turn in turns), *unsettled(money, orders)]


async def _read(cluster: Cluster, databases: Mapping[str, Database]) -> Remains:
    events: dict[str, list[tuple[int, bool, str]]] = defaultdict(list)
    stored = orchestrator.TURN_EVENTS
    ordered = sa.select(stored).order_by(stored.c.turn_id, stored.c.sequence)
    for row in await _rows(databases["orchestrator"], ordered):
        name = event_pb.TurnEvent.FromString(bytes(row.body)).WhichOneof("event") or ""
        events[row.turn_id].append((row.sequence, row.is_terminal, name))
    booked = await databases["tools"].read(
        lambda c: c.execute(sa.select(FUND_ACCOUNTS.c.account)).scalars().all()
    )
    return Remains(
        turns=await _rows(databases["orchestrator"], sa.select(orchestrator.TURNS)),
        events=events,
        recorded_turns=await _rows(databases["workspace"], sa.select(workspace.TURNS)),
        sessions=await _rows(databases["workspace"], sa.select(workspace.SESSIONS)),
        left_actions=await _rows(databases["tools"], _UNFINISHED_WITH_ACTION),
        money=await databases["tools"].read(read_recorded),
        orders=await databases["paper"].read(_orders),
        balances=await databases["paper"].read(lambda c: _balances(c, booked)),
        audits=[
            await verify_service(
                AuditPlace(
                    service=service,
                    database_url=cluster.database_url(service),
                    data_dir=cluster.data_dir,
                )
            )
            for service in ("tools", "workspace")
        ],
    )


async def _rows(database: Database, statement: sa.Select[Any]) -> Rows:
    return await database.read(lambda c: c.execute(statement).all())


def _orders(connection: sa.Connection) -> list[VenueOrder]:
    return [
        VenueOrder(
            client_order_id=row.client_order_id,
            kind=row.kind,
            state=row.state,
            filled_quantity=row.filled_quantity,
            spent=row.spent,
            received=row.received,
        )
        for row in connection.execute(sa.select(paper.ORDERS))
    ]


def _balances(connection: sa.Connection, accounts: Sequence[str]) -> dict[str, Decimal]:
    """What is at the venue in these accounts; one that was only looked at is in no books yet."""
    sums: dict[str, Decimal] = {}
    for row in connection.execute(
        sa.select(paper.BALANCES).where(paper.BALANCES.c.account.in_(accounts))
    ):
        sums[row.asset] = add(sums.get(row.asset, Decimal(0)), add(row.available, row.held))
    return {asset: amount for asset, amount in sums.items() if amount}


def _of_turns(remains: Remains) -> Iterable[str]:
    """A message that was put into a turn has none of its own."""
    for turn in remains.turns:
        if turn.interjected_into:
            continue
        events = remains.events.get(turn.turn_id, ())
        sequences = [sequence for sequence, _, _ in events]
        ends = [name for _, _, name in events if name in TERMINAL]
        if sequences != list(range(1, len(sequences) + 1)):
            yield f"turn {turn.turn_id} has the events {sequences}"
        if len(ends) != 1 or events[-1][2] != ends[0] or not events[-1][1]:
            yield f"turn {turn.turn_id} has {len(ends)} ends: {[name for *_, name in events][-4:]}"
    known = {turn.turn_id for turn in remains.turns}
    for turn_id in sorted(set(remains.events) - known):
        yield f"events of a turn {turn_id} that does not exist"


def _of_workspace(remains: Remains) -> Iterable[str]:
    recorded = {row.turn_id: row.state for row in remains.recorded_turns}
    ends = {turn: events[-1][2] for turn, events in remains.events.items() if events}
    for turn_id, end in ends.items():
        state = recorded.get(turn_id, "")
        if (end == "turn_completed") != (state == "completed"):
            yield f"turn {turn_id} was told as {end} and is recorded as {state or 'nothing'}"
    for turn_id in sorted(set(recorded) - set(ends)):
        yield f"turn {turn_id} is recorded and nobody was told"
    numbers: dict[str, list[int]] = defaultdict(list)
    for row in remains.recorded_turns:
        numbers[row.session_id].append(row.turn_number)
    for session in remains.sessions:
        has = sorted(numbers.get(session.session_id, []))
        if has != list(range(1, len(has) + 1)) or session.turn_count != len(has):
            yield f"session {session.session_id} counts {session.turn_count} and has turns {has}"


def _of_calls(remains: Remains) -> Iterable[str]:
    """A call whose end could not be written is told as interrupted, and must have left nothing."""
    for call in remains.left_actions:
        yield (
            f"call {call.tool_call_id} of turn {call.turn_id} ({call.tool_name}) never ended and "
            "has left an action"
        )


def _of_money(remains: Remains, people: Sequence[Person]) -> Iterable[str]:
    for fault in check(remains.money.books):
        yield f"ledger: {fault.invariant}: {fault.subject}: {fault.detail}"
    for halt in remains.money.halts:
        yield f"trading was stopped: {halt}"
    ours = remains.money.owned()
    for asset in sorted(set(ours) | set(remains.balances)):
        has, says = ours.get(asset, Decimal(0)), remains.balances.get(asset, Decimal(0))
        if has != says:
            yield f"{asset}: the books are off the venue by {canonical(subtract(has, says))}"
    ordered = {order.client_order_id for order in remains.orders}
    for operation in remains.money.books.operations:
        if operation.client_order_id not in ordered and operation.state is not VOIDED:
            yield f"{operation.operation_id} is {operation.state.value} without an order"
    operations = {one.client_order_id for one in remains.money.books.operations}
    for stray in sorted(ordered - operations):
        yield f"the venue has an order {stray} of no operation"
    ids = {person.user_id for person in people}
    confirmed = {client_order_id(action) for person in people for action in person.yes}
    for operation in remains.money.books.operations:
        if operation.user_id in ids and operation.client_order_id not in confirmed:
            yield f"{operation.operation_id} was done and nobody said yes"


def _of_audit(remains: Remains) -> Iterable[str]:
    for report in remains.audits:
        for finding in report.findings:
            if finding.is_broken:
                yield f"audit of {report.service}: {finding.sentence}"


def _of_person(remains: Remains, person: Person) -> Iterable[str]:
    """What they were told is what is stored."""
    yield from person.faults
    for told in person.told:
        yield from told.faults()
        stored = [name for *_, name in remains.events.get(told.turn_id, ())]
        heard_of = [event.name for event in told.events]
        if told.turn_id and stored != heard_of:
            yield f"turn {told.turn_id} is stored as {stored} and was told as {heard_of}"
    for action_id in person.yes:
        state = remains.money.books.actions.get(action_id)
        heard = person.answers.get(action_id, "")
        filled = sum(
            order.client_order_id == client_order_id(action_id) and order.filled_quantity > 0
            for order in remains.orders
        )
        if filled != (state is ActionState.DONE):
            yield f"{action_id} is {state} and the venue has filled {filled} orders of it"
        has_failed = any(told.failure for told in person.told)
        if state is ActionState.DONE and not heard and not has_failed:
            yield f"{action_id} is done and the person who said yes was not told"
        final = heard.removeprefix("ACTION_STATE_").lower()
        if final in {"done", "failed", "voided", "rejected", "expired"} and final != state:
            yield f"{action_id} was told as {final} and is {state}"
