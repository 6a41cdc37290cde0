"""ToolService over both databases: turns open and close, calls run, replay, and are recorded."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.type.v1 import permission_pb2 as permission_pb
from minara.type.v1 import turn_context_pb2 as context_pb
from minara_core.errors import Conflict, InvalidRequest, NotAuthenticated, NotFound
from minara_core.reasons import DenialReason, ErrorReason
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier
from minara_core.tooling import (
    ToolDelegated,
    ToolDenial,
    ToolFailure,
    ToolPending,
    ToolResult,
    ToolSuccess,
)
from minara_runtime import genai, telemetry
from minara_runtime.audit_verifier import verify
from minara_runtime.convert import call_to_pb, result_from_pb
from minara_runtime.settings import Settings
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.house import BUY, ToolsHouse, a_buy, a_call, a_house


@pytest.fixture
async def house(databases: Databases, tmp_path: Path) -> AsyncGenerator[ToolsHouse]:
    async with a_house(await databases.open(VERSIONS), tmp_path) as made:
        yield made


def denied(result: ToolResult) -> DenialReason:
    assert isinstance(result.outcome, ToolDenial), result.outcome
    return result.outcome.reason


async def test_a_read_runs_and_is_recorded_with_its_audit_row(house: ToolsHouse) -> None:
    await house.open()
    result = await house.one(a_call("get_price"))
    assert isinstance(result.outcome, ToolSuccess)
    assert result.envelope == '{"data":{"tool":"get_price"},"ok":true}'
    (audit,) = await house.rows("SELECT * FROM audit_records")
    assert (audit["kind"], audit["subject"], audit["outcome"]) == (
        "tool_call",
        "get_price",
        "success",
    )
    (call,) = await house.rows("SELECT * FROM tool_calls")
    assert (call["turn_id"], call["tool_call_id"]) == ("turn-1", "1.0")


async def test_the_audit_chain_stays_whole_over_reads_denials_and_moves(house: ToolsHouse) -> None:
    await house.open()
    await house.execute(
        a_call("get_price", "1.0"),
        a_call("nothing", "1.1"),
        a_buy("1.2"),
        a_call("get_price", "1.3"),
    )
    assert not await house.database.read(verify)
    kinds = await house.rows("SELECT kind, outcome FROM audit_records ORDER BY sequence")
    assert sorted((str(row["kind"]), str(row["outcome"])) for row in kinds) == [
        ("denial", "denied"),
        ("tool_call", "pending"),
        ("tool_call", "success"),
        ("tool_call", "success"),
    ]


async def test_opening_twice_is_opening_once(house: ToolsHouse) -> None:
    first = await house.open()
    second = await house.open()
    assert first == second
    assert len(await house.rows("SELECT * FROM turns")) == 1


async def test_validate_only_writes_nothing(house: ToolsHouse) -> None:
    response = await house.open(validate_only=True)
    assert response.ceiling == permission_pb.PERMISSION_TIER_ALWAYS_CONFIRM
    assert not await house.rows("SELECT * FROM turns")
    assert not await house.rows("SELECT * FROM sessions")


async def test_a_lower_epoch_is_refused_on_opening_and_on_executing(house: ToolsHouse) -> None:
    await house.open("turn-1", epoch=3)
    with pytest.raises(Conflict) as refused:
        await house.open("turn-2", epoch=2)
    assert refused.value.reason is ErrorReason.EPOCH_STALE
    await house.open("turn-1", epoch=4)
    house.opened["turn-1"].session_epoch = 3
    with pytest.raises(Conflict) as stale:
        await house.one(a_call("get_price"))
    assert stale.value.reason is ErrorReason.EPOCH_STALE


async def test_words_that_the_grant_does_not_prove_are_refused(house: ToolsHouse) -> None:
    context = house.context("turn-1", "price of BTC")
    for message in (BUY, ""):
        with pytest.raises(NotAuthenticated) as refused:
            await house.tools.OpenTurn(tools_pb.OpenTurnRequest(context=context, message=message))
        assert refused.value.reason is ErrorReason.GRANT_MISMATCH


async def test_a_foreign_session_is_not_found(house: ToolsHouse) -> None:
    await house.open("turn-1", user_id="ann")
    with pytest.raises(NotFound) as refused:
        await house.open("turn-2", user_id="bob")
    assert refused.value.reason is ErrorReason.SESSION_NOT_FOUND


async def test_a_closed_turn_runs_nothing(house: ToolsHouse) -> None:
    await house.open()
    await house.close()
    await house.close()
    assert denied(await house.one(a_call("get_price"))) is DenialReason.GRANT_INVALID


async def test_a_turn_that_was_never_opened_runs_nothing(house: ToolsHouse) -> None:
    house.opened["turn-9"] = house.context("turn-9", BUY)
    result = await house.one(a_call("get_price"), turn_id="turn-9")
    assert denied(result) is DenialReason.GRANT_INVALID


async def test_the_sessions_next_turn_closes_the_one_before(house: ToolsHouse) -> None:
    await house.open("turn-1")
    await house.open("turn-2", "and BTC?")
    assert denied(await house.one(a_call("get_price"))) is DenialReason.GRANT_INVALID
    again = await house.one(a_call("get_price"), turn_id="turn-2")
    assert isinstance(again.outcome, ToolSuccess)


async def test_a_batch_sent_again_returns_recorded_results(house: ToolsHouse) -> None:
    await house.open()
    calls = (a_call("get_price", "1.0"), a_call("write_file", "1.1"), a_buy("1.2"))
    first = await house.execute(*calls)
    second = await house.execute(*calls)
    assert first == second
    assert len(await house.rows("SELECT * FROM pending_actions")) == 1
    assert len(await house.rows("SELECT * FROM audit_records")) == 3


async def test_other_arguments_under_a_recorded_id_are_denied_and_the_record_stays(
    house: ToolsHouse,
) -> None:
    await house.open()
    first = await house.one(a_buy(amount="50"))
    changed = await house.one(a_buy(amount="5000"))
    assert denied(changed) is DenialReason.OPERATION_ARGUMENTS_CHANGED
    assert await house.one(a_buy(amount="50")) == first


async def test_a_call_that_began_and_never_ended_is_interrupted_unless_it_reads(
    house: ToolsHouse,
) -> None:
    await house.open()
    await house.execute(a_call("write_file", "1.0"), a_call("get_price", "1.1"))
    await house.database.transaction(_forget_ends)
    again = await house.execute(a_call("write_file", "1.0"), a_call("get_price", "1.1"))
    assert isinstance(again["1.0"].outcome, ToolFailure)
    assert again["1.0"].outcome.reason == "INTERRUPTED"
    assert isinstance(again["1.1"].outcome, ToolSuccess)


def _forget_ends(connection: object) -> None:
    import sqlalchemy as sa

    from minara_tools.adapters.sql_tables import TOOL_CALLS

    assert isinstance(connection, sa.Connection)
    connection.execute(sa.update(TOOL_CALLS).values(is_finished=False, result_json=""))


async def test_a_money_call_only_parks_an_action(house: ToolsHouse) -> None:
    await house.open()
    result = await house.one(a_buy())
    assert isinstance(result.outcome, ToolPending)
    data = json.loads(result.envelope)["data"]
    assert data["state"] == "pending_confirmation"
    assert data["pending_action_id"] == result.outcome.action.pending_action_id
    assert data["preview"]["max_spend"] == "51"
    assert result.outcome.action.solicited
    assert house.venue.sent == []
    (event,) = await house.rows("SELECT * FROM tier_events")
    assert (event["tool_name"], event["event"]) == ("buy_token", "pending")


async def test_one_money_call_made_twice_at_once_parks_one_action(house: ToolsHouse) -> None:
    await house.open()
    async with asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(house.one(a_buy())) for _ in range(2)]
    pending = [task.result() for task in both if isinstance(task.result().outcome, ToolPending)]
    assert pending
    assert len(await house.rows("SELECT * FROM pending_actions")) == 1
    assert len(await house.rows("SELECT * FROM tier_events")) == 1


async def test_a_move_that_nobody_asked_for_is_unsolicited(house: ToolsHouse) -> None:
    await house.open(message="what is a good wallet?")
    result = await house.one(a_buy())
    assert isinstance(result.outcome, ToolPending)
    assert not result.outcome.action.solicited


async def test_a_fourth_unsolicited_move_of_a_session_is_denied(house: ToolsHouse) -> None:
    await house.open(message="hello there")
    results = await house.execute(
        *(a_buy(f"1.{index}", f"{index + 1}", intent="buy ETH") for index in range(4))
    )
    outcomes = [type(results[f"1.{index}"].outcome) for index in range(4)]
    assert outcomes == [ToolPending, ToolPending, ToolPending, ToolDenial]
    assert denied(results["1.3"]) is DenialReason.RATE_LIMITED
    assert len(await house.rows("SELECT * FROM pending_actions")) == 3


async def test_a_trade_against_the_persons_words_is_denied(house: ToolsHouse) -> None:
    await house.open(message="sell 1 ETH")
    assert denied(await house.one(a_buy())) is DenialReason.INTENT_MISMATCH
    assert not await house.rows("SELECT * FROM pending_actions")


async def test_what_a_turn_read_from_outside_stands_on_its_preview_in_any_order(
    house: ToolsHouse,
) -> None:
    await house.open()
    results = await house.execute(a_buy("1.0"), a_call("read_file", "1.1"), a_buy("1.2", "60"))
    later = results["1.2"].outcome
    assert denied(results["1.2"]) is DenialReason.INTENT_MISMATCH, later
    first = results["1.0"].outcome
    assert isinstance(first, ToolPending)
    assert (await house.stored(first.action)).read_sources == ("read_file",)


async def test_stage_evaluate_denies_a_move_and_says_which_sentence_would_work(
    house: ToolsHouse,
) -> None:
    await house.open()
    results = await house.execute(a_buy(), stage=LifecycleStage.EVALUATE)
    outcome = results["1.0"].outcome
    assert isinstance(outcome, ToolDenial)
    assert outcome.reason is DenialReason.TIER_EXCEEDS_CEILING
    assert outcome.metadata["say"] == "buy 50 USDC of ETH"
    await house.open("turn-2", "buy 50 USDC of ETH")
    assert isinstance((await house.one(a_buy("1.0"), turn_id="turn-2")).outcome, ToolPending)


async def test_an_automatic_turn_writes_nothing_and_moves_nothing(house: ToolsHouse) -> None:
    await house.open(message=None, origin=Origin.GOAL)
    results = await house.execute(
        a_call("get_price", "1.0"), a_call("write_file", "1.1"), a_buy("1.2")
    )
    assert isinstance(results["1.0"].outcome, ToolSuccess)
    assert denied(results["1.1"]) is DenialReason.TOOL_SET_NOT_ALLOWED
    assert denied(results["1.2"]) is DenialReason.TOOL_SET_NOT_ALLOWED


async def test_local_tools_are_gated_here_and_delegated(house: ToolsHouse) -> None:
    await house.open()
    results = await house.execute(
        a_call("ask_user", "1.0", '{"question":"Which one?"}'),
        a_call("ask_user", "1.1", '{"question":"?","options":["a","b","c","d","e"]}'),
        a_call("activate_skills", "1.2", '{"skill_ids":["trade.spot"]}'),
    )
    assert isinstance(results["1.0"].outcome, ToolDelegated)
    assert denied(results["1.1"]) is DenialReason.ARGUMENTS_INVALID
    assert isinstance(results["1.2"].outcome, ToolDelegated)


async def test_a_request_grant_runs_one_read_only_tool_and_is_audited(house: ToolsHouse) -> None:
    async def ask(*names: str) -> ToolResult:
        request = tools_pb.ExecuteToolsRequest(
            context=context_pb.TurnContext(user_id="local"),
            calls=[call_to_pb(a_call(name, f"0.{at}")) for at, name in enumerate(names)],
        )
        call = house.tools.ExecuteTools(request, metadata=house.request_grant())
        (response,) = [one async for one in call]
        return result_from_pb(response.result)

    assert isinstance((await ask("get_portfolio")).outcome, ToolSuccess)
    assert denied(await ask("write_file")) is DenialReason.GRANT_INVALID
    assert denied(await ask("buy_token")) is DenialReason.ARGUMENTS_INVALID
    with pytest.raises(InvalidRequest):
        await ask("get_portfolio", "get_price")
    assert not await house.rows("SELECT * FROM tool_calls")
    assert len(await house.rows("SELECT * FROM audit_records")) == 3


async def test_calls_of_one_batch_have_ids_of_their_own(house: ToolsHouse) -> None:
    await house.open()
    with pytest.raises(InvalidRequest):
        await house.execute(a_call("get_price", "1.0"), a_call("get_price", "1.0"))
    with pytest.raises(InvalidRequest):
        await house.execute()


async def test_the_catalog_is_sorted_and_its_etag_stands_on_everything(house: ToolsHouse) -> None:
    metadata = house.request_grant()
    first = await house.tools.ListTools(tools_pb.ListToolsRequest(), metadata=metadata)
    names = [one.name for one in first.definitions]
    assert names == sorted(names)
    assert {"ask_user", "activate_skills", "buy_token"} <= set(names)
    assert first == await house.tools.ListTools(tools_pb.ListToolsRequest(), metadata=metadata)
    assert (await house.open()).catalog_etag == first.etag


async def test_the_ceiling_comes_from_grant_origin_and_trading_state(house: ToolsHouse) -> None:
    low = await house.open("turn-1", ceiling=PermissionTier.CONFIRM_ONCE)
    assert low.ceiling == permission_pb.PERMISSION_TIER_CONFIRM_ONCE
    goal = await house.open("turn-2", None, origin=Origin.GOAL)
    assert goal.ceiling == permission_pb.PERMISSION_TIER_CONFIRM_ONCE
    await house.halt()
    halted = await house.open("turn-3")
    assert halted.trading_state == permission_pb.TRADING_STATE_HALTED
    assert halted.ceiling == permission_pb.PERMISSION_TIER_CONFIRM_ONCE


async def test_a_file_is_written_because_the_person_wrote_and_the_audit_says_so(
    house: ToolsHouse,
) -> None:
    await house.open()
    assert isinstance((await house.one(a_call("write_file"))).outcome, ToolSuccess)
    (row,) = await house.rows("SELECT payload_json FROM audit_payloads")
    assert json.loads(str(row["payload_json"]))["confirmed_by"] == "message"


async def test_every_call_has_a_span_with_its_outcome(
    sqlite_databases: Databases, tmp_path: Path
) -> None:
    exporter = InMemorySpanExporter()
    spans = telemetry.configure(Settings(data_dir=tmp_path), "tools", exporter=exporter)
    database = await sqlite_databases.open(VERSIONS)
    async with a_house(database, tmp_path, spans=spans) as house:
        await house.open()
        await house.execute(a_call("get_price", "1.0"), a_call("my name is plugh", "1.1"))
        audits = await house.rows("SELECT trace_id FROM audit_records")
    found = {
        span.name: dict(span.attributes or {})
        for span in exporter.get_finished_spans()
        if span.name.startswith("execute_tool")
    }
    assert found["execute_tool get_price"][genai.OUTCOME] == "success"
    assert found["execute_tool _OTHER"][genai.REASON] == "TOOL_UNKNOWN"
    assert found["execute_tool _OTHER"][genai.TOOL_CALL_ID] == "1.1"
    assert all("plugh" not in span.to_json() for span in exporter.get_finished_spans())
    assert all(len(str(row["trace_id"])) == 32 for row in audits)
