"""JSON bodies of the HTTP API; an unknown field is an error, so that a misspelt one is noticed."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_Id = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9-]*$")]


def _joined(text: object) -> object:
    """Surrogate pairs joined, lone ones replaced: JSON may carry them, UTF-8 cannot."""
    if not isinstance(text, str):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_Text = Annotated[str, BeforeValidator(_joined)]
_FileKey = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9._/-]+$")]
_LimitName = Annotated[str, Field(max_length=40, pattern=r"^[a-z_]+$")]
_AmountText = Annotated[str, Field(max_length=42)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ChatBody(Body):
    """`POST /v1/chat` and `/v1/chat/stream`. `shown_action_id` names the pending action whose
    preview the client shows right now, for typed answers."""

    message: Annotated[_Text, Field(max_length=200_000)]
    session_id: _Id = ""
    file_keys: Annotated[tuple[_FileKey, ...], Field(max_length=20)] = ()
    double_texting: Literal["enqueue", "reject", "interrupt", "interject"] = "enqueue"
    on_disconnect: Literal["continue", "cancel"] = "continue"
    surface: Literal["http", "repl"] = "http"
    shown_action_id: _Id = ""


class DecisionBody(Body):
    """A decision on the preview with this hash."""

    action_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class CodeBody(Body):
    """A decision by the code that stands in the preview."""

    code: Annotated[str, Field(min_length=1, max_length=16)]
    session_id: _Id = ""


class SessionBody(Body):
    title: Annotated[_Text, Field(max_length=200)] = ""


class HaltBody(Body):
    reason: Annotated[_Text, Field(max_length=500)] = ""


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
