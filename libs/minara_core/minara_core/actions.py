"""Pending actions: a fully resolved order that waits for a person, and what came of it.

`action_hash` is the SHA-256 (hex) of the RFC 8785 JSON of order and preview; a confirmation binds
it, and the executor sends the stored order, never a derived one (safety.md §3).
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from minara_core.ids import PendingActionId, SessionId, ToolCallId, TurnId, UserId


class TradingMode(StrEnum):
    LIVE = "live"
    TESTNET = "testnet"
    PAPER = "paper"


class MoveKind(StrEnum):
    """What a confirmed action does at the venue: place an order, cancel one, move an asset to
    another account of the same person, or send it away."""

    TRADE = "trade"
    CANCEL = "cancel"
    TRANSFER = "transfer"
    WITHDRAWAL = "withdrawal"


class Side(StrEnum):
    """Direction of a trade; a cancel has its order's, what leaves an account counts as SELL."""

    BUY = "buy"
    SELL = "sell"


class OrderType(StrEnum):
    MARKET = "market"
    LIMIT = "limit"


class TimeInForce(StrEnum):
    """IOC fills at once what it can and cancels the rest; GTC rests until cancelled."""

    IOC = "ioc"
    GTC = "gtc"


class QuantityUnit(StrEnum):
    BASE = "base"
    QUOTE = "quote"
    CONTRACTS = "contracts"


class MarginMode(StrEnum):
    NONE = "none"
    CROSS = "cross"
    ISOLATED = "isolated"


class ActionState(StrEnum):
    """pending → confirmed → executing → done | failed | voided | uncertain; uncertain → done |
    failed; pending → rejected | expired | superseded. VOIDED: a gate refused at execution and
    nothing was sent."""

    PENDING = "pending"
    CONFIRMED = "confirmed"
    EXECUTING = "executing"
    DONE = "done"
    FAILED = "failed"
    VOIDED = "voided"
    UNCERTAIN = "uncertain"
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"

    @property
    def is_final(self) -> bool:
        return self not in {
            ActionState.PENDING,
            ActionState.CONFIRMED,
            ActionState.EXECUTING,
            ActionState.UNCERTAIN,
        }


class Decision(StrEnum):
    CONFIRM = "confirm"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """What is traded: on an exchange venue its own symbol, on a chain symbol and address. What a
    transfer or withdrawal moves has the asset as symbol and base and no quote."""

    symbol: str
    base: str
    quote: str
    chain: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedOrder:
    """Everything the executor will send, and nothing it could still choose.

    `recipient` is an own account for a transfer, an address in full for a withdrawal; `memo` goes
    with an address. `cancels` is the client id of the order that a cancel ends.
    """

    mode: TradingMode
    venue: str
    account: str
    instrument: Instrument
    side: Side
    order_type: OrderType
    quantity: Decimal
    quantity_unit: QuantityUnit
    limit_price: Decimal
    time_in_force: TimeInForce
    reduce_only: bool = False
    leverage: Decimal = Decimal(1)
    margin_mode: MarginMode = MarginMode.NONE
    max_spend: Decimal
    max_spend_asset: str
    min_receipt: Decimal
    min_receipt_asset: str
    max_fee: Decimal
    max_fee_asset: str
    recipient: str = ""
    kind: MoveKind = MoveKind.TRADE
    memo: str = ""
    cancels: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPreview:
    """What the venue expects; typed, so that the gateway can render it in any language."""

    price: Decimal
    notional_usd: Decimal
    estimated_receipt: Decimal
    estimated_receipt_asset: str
    estimated_fee: Decimal
    estimated_fee_asset: str
    price_impact: Decimal
    slippage_bound: Decimal
    quote_time: datetime
    warnings: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOutcome:
    """What came of a decided action. Amounts are zero where nothing was filled. `replaced_by` is
    the new preview that came at once when a changed price voided this one."""

    state: ActionState
    message: str
    reason: str = ""
    filled_quantity: Decimal = Decimal(0)
    filled_asset: str = ""
    average_price: Decimal = Decimal(0)
    spent: Decimal = Decimal(0)
    spent_asset: str = ""
    received: Decimal = Decimal(0)
    received_asset: str = ""
    fee: Decimal = Decimal(0)
    fee_asset: str = ""
    client_order_id: str = ""
    venue_order_id: str = ""
    decide_time: datetime | None = None
    finish_time: datetime | None = None
    replaced_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAction:
    """A tool call parked for a person. `solicited` is false when no message of theirs asked for it;
    `read_sources` then says what the turn had read. `arguments_json` is the RFC 8785 JSON of the
    call's validated arguments without `intent`, `origin` how its turn came about."""

    pending_action_id: PendingActionId
    user_id: UserId
    session_id: SessionId
    turn_id: TurnId
    tool_call_id: ToolCallId
    tool_name: str
    state: ActionState
    order: ResolvedOrder
    preview: ActionPreview
    action_hash: str
    create_time: datetime
    expire_time: datetime
    arguments_json: str = ""
    origin: str = ""
    solicited: bool = False
    possible_duplicate: bool = False
    read_sources: tuple[str, ...] = ()
    outcome: ActionOutcome | None = None


class PlacedState(StrEnum):
    """What the venue says of an order."""

    OPEN = "open"
    FILLED = "filled"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOrder:
    """An order, transfer or withdrawal as the venue knows it. `spent`, `received` and `fee` are
    what it has booked so far; CANCELLED and EXPIRED may hold a partial fill. `instrument`, `side`,
    `quantity` and `limit_price` are what was asked for."""

    client_order_id: str
    venue_order_id: str
    state: PlacedState
    filled_quantity: Decimal
    average_price: Decimal
    spent: Decimal
    spent_asset: str
    received: Decimal
    received_asset: str
    fee: Decimal
    fee_asset: str
    reason: str = ""
    instrument: str = ""
    side: Side = Side.BUY
    quantity: Decimal = Decimal(0)
    limit_price: Decimal = Decimal(0)
    create_time: datetime | None = None
