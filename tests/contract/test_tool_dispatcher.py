"""The dispatcher: tools return, they do not raise; reads run together, everything else alone."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara_core import errors
from minara_core.ids import ToolCallId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_core.tooling import ToolDenial, ToolFailure, ToolOutcome, ToolPending, ToolSuccess
from minara_runtime import telemetry
from minara_runtime.convert import call_to_pb, context_from_pb
from minara_runtime.database import Database, Engine
from minara_runtime.sqlite_engine import SqliteEngine
from minara_tools.adapters.call_tracing import CallTracing
from minara_tools.adapters.sql_calls import SqlCalls
from minara_tools.adapters.sql_turns import SqlTurns
from minara_tools.app.execute_tools import CallFinished, ToolDispatcher
from minara_tools.app.open_turn import TurnOpening
from minara_tools.app.record_calls import CallRecorder
from minara_tools.domain.gates import GATES
from minara_tools.domain.hooks import BeforeToolCallHook, GateInput
from minara_tools.domain.ledger import Selection
from minara_tools.domain.outcomes import SandboxEscapeError, ToolCallBlockedError, ToolFailed
from minara_tools.domain.registry import ToolContext, ToolEntry, ToolRegistry
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.entries import Rendezvous, a_move_tool, a_tool
from support.tools.house import ToolsHouse, a_buy, a_call, a_house
from support.tools.money import a_money
from support.tools.venue import FakeVenue

T = TypeVar("T")

BLOCKED = ToolCallBlockedError(DenialReason.URL_NOT_SEEN, gate="tool", message="no")


def raising(error: BaseException) -> ToolEntry:
    async def handler(arguments: BaseModel, context: ToolContext) -> object:
        raise error

    return a_tool("get_price", handler=handler)


async def outcome_of(databases: Databases, tmp_path: Path, entry: ToolEntry) -> ToolOutcome:
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path, entries=(entry,)) as house:
        await house.open()
        call = a_buy() if entry.is_fund_moving else a_call(entry.name)
        outcome = (await house.one(call)).outcome
        (audit,) = await house.rows("SELECT outcome FROM audit_records")
        assert audit["outcome"] in {"failed", "denied", "success"}
        return outcome


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ToolFailed("PRICE_UNAVAILABLE", "no price"), "PRICE_UNAVAILABLE"),
        (SandboxEscapeError("../x"), "SANDBOX_ESCAPE"),
        (errors.InvalidRequest("bad"), "REQUEST_INVALID"),
        (errors.Unavailable("gone"), "PEER_UNAVAILABLE"),
        (errors.NotFound("none"), "ROUTE_NOT_FOUND"),
        (TimeoutError(), "DEADLINE_EXCEEDED"),
        (ValueError("secret"), "INTERNAL"),
        (KeyError("secret"), "INTERNAL"),
        (ExceptionGroup("many", [ValueError("secret")]), "INTERNAL"),
        (RecursionError("secret"), "INTERNAL"),
        (AssertionError("secret"), "INTERNAL"),
    ],
)
async def test_every_exception_of_a_tool_becomes_a_failure(
    sqlite_databases: Databases, tmp_path: Path, error: Exception, reason: str
) -> None:
    outcome = await outcome_of(sqlite_databases, tmp_path, raising(error))
    assert isinstance(outcome, ToolFailure)
    assert outcome.reason == reason
    assert "secret" not in outcome.message
    assert bool(outcome.reference_id) is (reason == "INTERNAL")


async def test_a_tool_that_blocks_itself_is_a_denial(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    outcome = await outcome_of(sqlite_databases, tmp_path, raising(BLOCKED))
    assert isinstance(outcome, ToolDenial)
    assert outcome.reason is DenialReason.URL_NOT_SEEN


@pytest.mark.parametrize("error", [ToolFailed("BALANCE_INSUFFICIENT", "no"), ValueError("secret")])
async def test_a_quote_that_fails_parks_nothing(
    sqlite_databases: Databases, tmp_path: Path, error: Exception
) -> None:
    entry = a_move_tool(FakeVenue(), quote_error=error)
    outcome = await outcome_of(sqlite_databases, tmp_path, entry)
    assert isinstance(outcome, ToolFailure)
    assert "secret" not in outcome.message


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", {"x": object()}])
async def test_an_answer_that_is_no_json_is_a_failure(
    sqlite_databases: Databases, tmp_path: Path, value: object
) -> None:
    async def handler(arguments: BaseModel, context: ToolContext) -> object:
        return value

    outcome = await outcome_of(sqlite_databases, tmp_path, a_tool(handler=handler))
    assert isinstance(outcome, ToolFailure)
    assert outcome.reason == "INTERNAL"


async def test_text_from_outside_never_breaks_a_batch(databases: Databases, tmp_path: Path) -> None:
    async def handler(arguments: BaseModel, context: ToolContext) -> object:
        return {"text": "half \ud800 and \x00"}

    outcome = await outcome_of(databases, tmp_path, a_tool(handler=handler))
    assert isinstance(outcome, ToolSuccess)
    assert outcome.data_json == '{"text":"half ? and \\u0000"}'


async def test_a_name_that_no_tool_could_have_is_denied_and_recorded(
    databases: Databases, tmp_path: Path
) -> None:
    async with a_house(await databases.open(VERSIONS), tmp_path) as house:
        await house.open()
        result = await house.one(a_call("drop\x00table" + "x" * 500))
        assert isinstance(result.outcome, ToolDenial)
        assert result.outcome.reason is DenialReason.TOOL_UNKNOWN
        (row,) = await house.rows("SELECT subject FROM audit_records")
    assert str(row["subject"]).startswith("drop?table")


async def test_a_tool_that_takes_too_long_is_cut_off(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    async def forever(arguments: BaseModel, context: ToolContext) -> object:
        await asyncio.Event().wait()
        return {}

    entry = a_tool(handler=forever, timeout_seconds=0.05)
    outcome = await outcome_of(sqlite_databases, tmp_path, entry)
    assert isinstance(outcome, ToolFailure)
    assert outcome.reason == "DEADLINE_EXCEEDED"


async def test_neighbouring_reads_run_together_but_never_more_than_eight(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    meeting = Rendezvous(8)
    entry = a_tool("get_price", handler=meeting)
    async with a_house(await sqlite_databases.open(VERSIONS), tmp_path, entries=(entry,)) as house:
        await house.open()
        results = await house.execute(*(a_call("get_price", f"1.{n}") for n in range(20)))
    assert meeting.most == 8
    assert all(isinstance(result.outcome, ToolSuccess) for result in results.values())


async def test_every_other_call_is_a_barrier_in_the_models_order(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    log: list[str] = []

    def logged(name: str, tool_set: str, tier: PermissionTier) -> ToolEntry:
        async def handler(arguments: BaseModel, context: ToolContext) -> object:
            log.append(f"+{context.tool_call_id}")
            for _ in range(3):
                await asyncio.wait([asyncio.ensure_future(_tick())])
            log.append(f"-{context.tool_call_id}")
            return {}

        return a_tool(name, tool_set=tool_set, tier=tier, handler=handler)

    entries = (
        logged("get_price", "read", PermissionTier.READ_ONLY),
        logged("write_file", "file", PermissionTier.CONFIRM_ONCE),
    )
    async with a_house(await sqlite_databases.open(VERSIONS), tmp_path, entries=entries) as house:
        await house.open()
        await house.execute(
            a_call("get_price", "1.0"),
            a_call("get_price", "1.1"),
            a_call("write_file", "1.2"),
            a_call("write_file", "1.3"),
            a_call("get_price", "1.4"),
        )
    assert set(log[:2]) == {"+1.0", "+1.1"}
    assert set(log[2:4]) == {"-1.0", "-1.1"}
    assert log[4:] == ["+1.2", "-1.2", "+1.3", "-1.3", "+1.4", "-1.4"]


async def _tick() -> None:
    """One more turn of the loop."""


async def test_a_cut_result_is_kept_whole(databases: Databases, tmp_path: Path) -> None:
    async def handler(arguments: BaseModel, context: ToolContext) -> object:
        return {"text": "x" * 30_000}

    async with a_house(
        await databases.open(VERSIONS), tmp_path, entries=(a_tool(handler=handler),)
    ) as house:
        await house.open()
        result = await house.one(a_call("get_price"))
        assert len(result.envelope) <= 24 * 1024
        assert await house.one(a_call("get_price")) == result
        (row,) = await house.rows("SELECT data_json FROM tool_results")
    assert len(str(row["data_json"])) > 30_000


async def test_progress_reaches_the_caller(sqlite_databases: Databases, tmp_path: Path) -> None:
    async def handler(arguments: BaseModel, context: ToolContext) -> object:
        context.progress("half", 0.5)
        context.progress("too much", 7)
        return {}

    async with a_house(
        await sqlite_databases.open(VERSIONS), tmp_path, entries=(a_tool(handler=handler),)
    ) as house:
        await house.open()
        request = tools_pb.ExecuteToolsRequest(
            context=house.opened["turn-1"], calls=[call_to_pb(a_call("get_price"))]
        )
        updates = [update async for update in house.tools.ExecuteTools(request)]
    assert [(u.progress.message, u.progress.fraction) for u in updates[:2]] == [
        ("half", 0.5),
        ("too much", 1.0),
    ]
    assert updates[2].result.tool_call_id == "1.0"


async def test_a_caller_that_goes_away_stops_its_reads(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    inside, stopped = asyncio.Event(), asyncio.Event()

    async def handler(arguments: BaseModel, context: ToolContext) -> object:
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return {}

    async with a_house(
        await sqlite_databases.open(VERSIONS), tmp_path, entries=(a_tool(handler=handler),)
    ) as house:
        await house.open()
        running = asyncio.create_task(house.one(a_call("get_price")))
        await inside.wait()
        running.cancel()
        await asyncio.wait_for(stopped.wait(), 5)


async def one_result(
    house: ToolsHouse, database: Database, hooks: Sequence[BeforeToolCallHook]
) -> ToolOutcome:
    """What a dispatcher with these hooks makes of one read in the opened turn."""
    clock = house.installation.clock
    tracing = CallTracing(telemetry.disabled())
    turns = SqlTurns(database, lambda: False)
    calls = SqlCalls(database)
    dispatcher = ToolDispatcher(
        ToolRegistry((a_tool("get_price"),)),
        hooks,
        turns,
        CallRecorder(calls, clock, tracing),
        (await a_money(database, house.data_dir, house.venue, clock)).preview,
        clock=clock,
        tracing=tracing,
        report_bug=lambda error, place: "reference-1",
    )
    context = context_from_pb(house.opened["turn-1"])
    grant = house.installation.verifier.verify(context.grant)
    batch = await TurnOpening(turns, clock).batch(
        grant, context, [a_call("get_price", ToolCallId("9.0"))], Selection()
    )
    updates = [update async for update in dispatcher.execute(batch)]
    await calls.aclose()
    assert isinstance(updates[-1], CallFinished)
    return updates[-1].result.outcome


async def test_a_hook_that_breaks_denies_with_a_reference(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    def broken(given: GateInput) -> None:
        raise ZeroDivisionError("secret")

    database = await sqlite_databases.open(VERSIONS)
    async with a_house(database, tmp_path) as house:
        await house.open()
        outcome = await one_result(house, database, (*GATES, broken))
    assert isinstance(outcome, ToolDenial)
    assert outcome.reason is DenialReason.HOOK_FAILED
    assert outcome.metadata == {"reference_id": "reference-1"}
    assert "secret" not in outcome.message


async def test_without_any_hook_an_unknown_tool_still_runs_nothing(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    database = await sqlite_databases.open(VERSIONS)
    async with a_house(database, tmp_path) as house:
        await house.open()
        outcome = await one_result(house, database, ())
        assert isinstance(outcome, ToolSuccess)
        unknown = await house.one(a_call("nothing"))
    assert isinstance(unknown.outcome, ToolDenial)


class CountingEngine:
    """Implements Engine around another one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.commits = 0

    async def transaction(
        self, fn: Callable[[sa.Connection], T], *, repeatable: bool, brief: bool
    ) -> T:
        self.commits += 1
        return await self._engine.transaction(fn, repeatable=repeatable, brief=brief)

    async def read(self, fn: Callable[[sa.Connection], T], *, brief: bool) -> T:
        return await self._engine.read(fn, brief=brief)

    async def answers(self) -> bool:
        return await self._engine.answers()

    def in_use(self) -> int:
        return self._engine.in_use()

    def exclusive(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return self._engine.exclusive()

    async def aclose(self) -> None:
        await self._engine.aclose()


async def test_opening_and_one_read_take_two_commits(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    url = await sqlite_databases.url(VERSIONS)
    engine = CountingEngine(SqliteEngine(sa.make_url(url), durable=True, readers=2))
    async with a_house(Database(engine, "sqlite"), tmp_path) as house:
        await house.open("turn-0", "hello")
        engine.commits = 0
        await house.open("turn-1")
        await house.one(a_call("get_price"))
        assert engine.commits == 2
        await house.execute(*(a_call("get_price", f"2.{n}") for n in range(8)))
        assert engine.commits <= 4
        assert isinstance((await house.one(a_buy("3.0"))).outcome, ToolPending)
