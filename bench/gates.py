"""What the gates take of a money call whose fund context is warm: arguments, gates, stages, the
action's hash, and the one commit of call, preview and audit row."""

import json
import time
from pathlib import Path

from bench.wire import percentile
from minara_core.actions import ActionState, PendingAction
from minara_core.clock import SystemClock
from minara_core.failpoints import no_failpoint
from minara_core.ids import PendingActionId, RandomIds, SessionId, ToolCallId, TurnId, UserId
from minara_core.taxonomy import LifecycleStage, Origin, PermissionTier, TradingState
from minara_core.tooling import ToolCall
from minara_runtime import telemetry
from minara_runtime.database import Database
from minara_tools.adapters.call_tracing import BugLog, CallTracing
from minara_tools.adapters.counter_file import CounterFile, counter_path
from minara_tools.adapters.halt_file import HaltFile
from minara_tools.adapters.market_simulated import SimulatedMarket
from minara_tools.adapters.sql_calls import SqlCalls
from minara_tools.adapters.sql_money_counter import MoneyCounter
from minara_tools.adapters.venue_paper import PaperVenue
from minara_tools.app.record_calls import CallRecorder
from minara_tools.domain.action_json import action_hash, canonical_arguments
from minara_tools.domain.approvals import LIFETIME
from minara_tools.domain.funds import StageInput
from minara_tools.domain.gates import GATES, ceiling_of
from minara_tools.domain.hooks import gate_input, pass_gates
from minara_tools.domain.intent import is_solicited, named_move
from minara_tools.domain.ledger import Selection, TurnLedger
from minara_tools.domain.registry import Quotation, ToolContext, ToolRegistry
from minara_tools.domain.stages import ASKING, pass_stages
from minara_tools.main import VERSIONS
from minara_tools.money import STEADY, Money, Surroundings, clock_of_money, wire_money
from minara_tools.settings import ToolsSettings
from minara_tools.toolsets.trade.buy_token import buy_token

WARM_UP = 20
WORDS = "buy $50 of ETH"
ARGUMENTS = json.dumps({"symbol": "ETH", "amount": "50", "amount_unit": "quote", "intent": WORDS})
_SELECTION = Selection(
    stage=LifecycleStage.DECIDE,
    callable_tools=frozenset({"buy_token"}),
    risk_ceiling=PermissionTier.ALWAYS_CONFIRM,
)


class Desk:
    """The money part of the tools service over files in `folder`; each call is of a new person."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        folder.mkdir(parents=True)
        self._clock, ids = SystemClock(), RandomIds()
        self._database = Database.open(f"sqlite:///{folder / 'tools.db'}", durable=durable)
        self._paper = Database.open(f"sqlite:///{folder / 'paper.db'}")
        market = SimulatedMarket(self._clock)
        self._venue = PaperVenue(
            self._paper, market, self._clock, starting_balances=ToolsSettings().starting_balances
        )
        tracing = CallTracing(telemetry.disabled())
        self._registry = ToolRegistry((buy_token(self._venue, market),))
        counter = CounterFile(counter_path(folder), host="bench")
        self._money: Money = wire_money(
            Surroundings(
                database=self._database,
                venue=self._venue,
                market=market,
                halt_file=HaltFile(folder),
                counter=MoneyCounter(counter, "bench", ids),
                clock=self._clock,
                time_of=clock_of_money(self._database, self._clock),
                ids=ids,
                owner="bench",
                tracing=tracing,
                report_bug=BugLog(ids).report,
                failpoint=no_failpoint,
                pace=STEADY,
            ),
            self._registry,
        )
        self._ids = ids
        self._calls = SqlCalls(self._database)
        self._recorder = CallRecorder(self._calls, self._clock, tracing)

    async def start(self) -> None:
        await self._database.migrate(VERSIONS)
        await self._venue.migrate()
        await self._money.restored.begin()

    async def aclose(self) -> None:
        await self._calls.aclose()
        await self._database.aclose()
        await self._paper.aclose()

    async def measure(self) -> float:
        """Milliseconds of one call, from its arguments to its preview on disk."""
        name = self._ids.new()
        ledger = _ledger(name)
        call = ToolCall(tool_call_id=ToolCallId("1.0"), name="buy_token", arguments_json=ARGUMENTS)
        quotation, warm = await self._warm(ledger, call)
        begin = time.perf_counter()
        given = gate_input(call, self._registry, ledger, _SELECTION)
        pass_gates(GATES, given)
        pass_stages(ASKING, warm)
        assert given.entry is not None
        assert given.arguments is not None
        now = self._clock.now()
        action = PendingAction(
            pending_action_id=PendingActionId(self._ids.new()),
            user_id=ledger.user_id,
            session_id=ledger.session_id,
            turn_id=ledger.turn_id,
            tool_call_id=call.tool_call_id,
            tool_name=call.name,
            state=ActionState.PENDING,
            order=quotation.order,
            preview=quotation.preview,
            action_hash=action_hash(quotation.order, quotation.preview),
            arguments_json=canonical_arguments(given.arguments),
            create_time=now,
            expire_time=now + LIFETIME,
            solicited=is_solicited(ledger.human_messages, named_move(given.entry, given.arguments)),
        )
        await self._recorder.park(ledger, given.entry, call, action, duration_ms=0)
        return (time.perf_counter() - begin) * 1_000

    async def _warm(self, ledger: TurnLedger, call: ToolCall) -> tuple[Quotation, StageInput]:
        entry, funds = self._registry.entries[call.name], self._money.preview.funds
        given = gate_input(call, self._registry, ledger, _SELECTION)
        assert entry.quote is not None
        assert given.arguments is not None
        context = ToolContext(
            user_id=ledger.user_id,
            session_id=ledger.session_id,
            turn_id=ledger.turn_id,
            tool_call_id=call.tool_call_id,
            origin=ledger.origin,
            progress=lambda message, fraction: None,
        )
        quotation = await entry.quote(given.arguments, context)
        order = quotation.order
        snapshot = await funds.snapshot(
            ledger.user_id, order.account, (order.instrument.base, order.instrument.quote)
        )
        return quotation, StageInput(
            order=order,
            preview=quotation.preview,
            funds=await funds.context(ledger.user_id, snapshot),
            ceiling=ceiling_of(given),
        )


def _ledger(name: str) -> TurnLedger:
    return TurnLedger(
        turn_id=TurnId(f"turn-{name}"),
        session_id=SessionId(f"session-{name}"),
        user_id=UserId(f"user-{name}"),
        origin=Origin.HTTP,
        is_open=True,
        tool_sets=frozenset({"read", "trade"}),
        grant_ceiling=PermissionTier.ALWAYS_CONFIRM,
        trading_state=TradingState.ACTIVE,
        message=WORDS,
        human_messages=(WORDS,),
    )


async def measure_gates(folder: Path, calls: int) -> dict[str, float]:
    """Milliseconds per money call on SQLite, with the wait for the disk and without."""
    figures: dict[str, float] = {}
    for name, durable in (("gates_p50_ms", False), ("gates_fsync_p50_ms", True)):
        desk = Desk(folder / name, durable=durable)
        await desk.start()
        spent = [await desk.measure() for _ in range(calls + WARM_UP)]
        figures[name] = percentile(spent[WARM_UP:], 50)
        await desk.aclose()
    return figures
