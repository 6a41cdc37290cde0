"""JSON bodies of the HTTP API. An unknown field is an error, so that a misspelt one is noticed, and
nothing is taken for what it is not: true is no number, "yes" no boolean."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

from minara_core.money import AMOUNT_PATTERN

_Id = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9-]*$")]


def _joined(text: object) -> object:
    """Surrogate pairs joined, lone ones replaced: JSON may carry them, UTF-8 cannot."""
    if not isinstance(text, str):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_Text = Annotated[str, BeforeValidator(_joined)]
_FileKey = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9._/-]+$")]
_LimitName = Annotated[str, Field(max_length=40, pattern=r"^[a-z_]+$")]
_List = Strict(False)  # JSON has lists where we keep tuples
_AmountText = Annotated[str, Field(max_length=42)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ChatBody(Body):
    """`POST /v1/chat` and `/v1/chat/stream`. `shown_action_id` names the pending action whose
    preview the client shows right now, for typed answers."""

    message: Annotated[_Text, Field(max_length=200_000)]
    session_id: _Id = ""
    file_keys: Annotated[tuple[_FileKey, ...], _List, Field(max_length=20)] = ()
    double_texting: Literal["enqueue", "reject", "interrupt", "interject"] = "enqueue"
    on_disconnect: Literal["continue", "cancel"] = "continue"
    surface: Literal["http", "repl"] = "http"
    shown_action_id: _Id = ""


class InterjectBody(Body):
    """`POST /v1/chat/interject`: a message for the turn `turn_id`, or else the live one, of this
    session."""

    message: Annotated[_Text, Field(max_length=200_000)]
    session_id: Annotated[_Id, Field(min_length=1)]
    turn_id: _Id = ""
    surface: Literal["http", "repl"] = "http"


class InterruptBody(Body):
    """`POST /v1/chat/interrupt`: a turn, or the live one of a session."""

    turn_id: _Id = ""
    session_id: _Id = ""


class GoalBody(Body):
    """`POST /v1/sessions/ID/goal`. The orchestrator judges its size."""

    text: Annotated[_Text, Field(max_length=200_000)]
    max_turns: Annotated[int, Field(ge=0, le=1_000)] = 0
    subgoals: Annotated[tuple[_Text, ...], _List, Field(max_length=1_000)] = ()


class ContinueBody(Body):
    """`POST /v1/sessions/ID/goal:continue`: a turn that nobody's words start only waits or goes."""

    double_texting: Literal["enqueue", "reject"] = "enqueue"
    on_disconnect: Literal["continue", "cancel"] = "continue"


class DecisionBody(Body):
    """A decision on the preview with this hash."""

    action_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CodeBody(Body):
    """A decision by the code that stands in the preview."""

    code: Annotated[str, Field(min_length=1, max_length=16)]
    session_id: _Id = ""


class SessionBody(Body):
    title: Annotated[_Text, Field(max_length=200)] = ""


class ModelBody(Body):
    """`PUT /v1/models/chosen`: `provider` or `provider:name`; empty forgets the choice."""

    model: Annotated[str, Field(max_length=200)]


class HaltBody(Body):
    """`cancel_protection` also cancels the orders that protect a position, `close_positions` also
    makes a preview of the sale of each."""

    reason: Annotated[_Text, Field(max_length=500)] = ""
    cancel_protection: bool = False
    close_positions: bool = False


class OrderBody(Body):
    """`POST /v1/orders`: a purchase or a sale, at the market or, with `limit_price`, resting.
    `amount_unit` is "quote" (money), "base" (quantity) or, for a sale at the market, "all";
    `bound_percent` is how far the price of such a sale may fall below the preview's."""

    side: Literal["buy", "sell"]
    symbol: Annotated[str, Field(max_length=20, pattern=r"^[A-Za-z0-9/-]+$")]
    amount: Annotated[str, Field(max_length=42, pattern=AMOUNT_PATTERN)] | None = None
    amount_unit: Literal["quote", "base", "all"]
    limit_price: Annotated[str, Field(max_length=42, pattern=AMOUNT_PATTERN)] | None = None
    bound_percent: Literal["1", "3", "10"] = "1"

    @property
    def sentence(self) -> str:
        """The fields as the words of a person, which they are."""
        base = self.symbol.replace("-", "/").partition("/")[0].upper()
        if self.amount is None:
            return f"{self.side} all of my {base}"
        money = " USDC of" if self.amount_unit == "quote" else ""
        price = f" at {self.limit_price}" if self.limit_price else ""
        return f"{self.side} {self.amount}{money} {base}{price}"

    @property
    def call(self) -> tuple[str, dict[str, str]]:
        """The tool that previews it, and its arguments."""
        fields = {"symbol": self.symbol, "amount_unit": self.amount_unit, "intent": self.sentence}
        if self.amount is not None:
            fields["amount"] = self.amount
        if self.limit_price is None:
            is_wide = self.bound_percent != "1"
            return f"{self.side}_token", fields | (
                {"bound_percent": self.bound_percent} if is_wide else {}
            )
        return "place_limit_order", fields | {"side": self.side, "limit_price": self.limit_price}


class CancelBody(Body):
    """`POST /v1/orders:cancel`: one open order, by its id or the beginning of it."""

    order_id: Annotated[str, Field(min_length=4, max_length=64, pattern=r"^[0-9a-fA-F-]+$")]
    symbol: Annotated[str, Field(max_length=20, pattern=r"^[A-Za-z0-9/-]+$")]

    @property
    def sentence(self) -> str:
        base = self.symbol.replace("-", "/").partition("/")[0].upper()
        return f"cancel my {base} order {self.order_id.lower()}"

    @property
    def call(self) -> tuple[str, dict[str, str]]:
        fields = {"order_id": self.order_id, "symbol": self.symbol, "intent": self.sentence}
        return "cancel_order", fields


class ManualBody(Body):
    """`POST /v1/manual-actions`: a card as the person filled it in. `request_id` names the form."""

    tool: Annotated[str, Field(max_length=60, pattern=r"^[a-z_]+$")]
    arguments: Annotated[
        dict[_LimitName, Annotated[_Text, Field(max_length=200)]], Field(max_length=20)
    ]
    request_id: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9-]*$")] = ""


class ResumeBody(Body):
    """`etag` of the trading state the person saw."""

    etag: Annotated[str, Field(min_length=1, max_length=200)]


class ResolveBody(Body):
    """What a person knows of an operation that nobody else knows of."""

    was_executed: bool
    evidence: Annotated[_Text, Field(min_length=1, max_length=2_000)]


class PromptBody(Body):
    message: Annotated[_Text, Field(max_length=200_000)]
    session_id: _Id = ""


class LimitsBody(Body):
    """`preset` is "small" or "standard"; `values`, as text by limit, win over it."""

    preset: Annotated[str, Field(max_length=20)] = ""
    values: Annotated[dict[_LimitName, _AmountText], Field(max_length=20)] = {}


class AddressBody(Body):
    """A recipient as the person entered it."""

    name: Annotated[_Text, Field(min_length=1, max_length=60)]
    chain: Annotated[str, Field(min_length=1, max_length=40)]
    address: Annotated[_Text, Field(min_length=1, max_length=120)]
    memo: Annotated[_Text, Field(max_length=100)] = ""
