"""What goes wrong at a provider. Faults compose: each changes what the one before left.

A fault either stands in place of the answer, changes its events, or changes how its bytes go out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from minara_llm.wire.bodies import Api, Body, Refusal
from minara_llm.wire.frames import ArgumentShape, Frame, FrameKind
from minara_llm.wire.http import Part, Pause, Step, in_pieces
from minara_llm.wire.refusals import overflow, usual_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Instead:
    """What comes in place of an answer."""

    refusal: Refusal
    headers: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Does nothing; its heirs do one thing each."""

    shape: ArgumentShape | None = None

    def instead(self, api: Api) -> Instead | None:
        """A refusal in place of the answer; the brain is not asked then."""
        return None

    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        """The events, changed. An answer that is no stream has one frame of kind WHOLE."""
        return frames

    def sent(self, parts: Sequence[Part]) -> Sequence[Part]:
        """What goes out, changed. Each part of bytes is one event before the first fault."""
        return parts

    @property
    def has_head(self) -> bool:
        """Whether anything at all is answered."""
        return True

    @property
    def is_refusing(self) -> bool:
        """Whether the brain is not asked."""
        return not self.has_head or self.instead(Api.CHAT) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFault(Fault):
    """An HTTP error. `kind`, `code` and `message` are the provider's usual ones unless given."""

    status: int
    kind: str = ""
    message: str = ""
    code: str | None = None
    retry_after: str = ""
    retry_after_ms: str = ""

    @override
    def instead(self, api: Api) -> Instead:
        headers = {
            name: value
            for name, value in (
                ("retry-after", self.retry_after),
                ("retry-after-ms", self.retry_after_ms),
            )
            if value
        }
        refusal = usual_refusal(api, self.status)
        refusal = replace(
            refusal,
            kind=self.kind or refusal.kind,
            message=self.message or refusal.message,
            code=self.code or refusal.code,
        )
        return Instead(refusal=refusal, headers=headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowFault(Fault):
    """The model cannot read that much, whatever was sent."""

    @override
    def instead(self, api: Api) -> Instead:
        return Instead(refusal=overflow(api, 1_200_000, 1_000_000), headers={})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEventFault(Fault):
    """An error inside a stream that began well, behind so many deltas; nothing comes after it.
    `is_failed_answer`: the Responses API says it in an answer that failed, not in an event of its
    own."""

    name: str = "overloaded_error"
    message: str = "Overloaded"
    after_deltas: int = 1
    is_failed_answer: bool = False

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        before = frames[: _behind(frames, self.after_deltas)]
        if self.is_failed_answer and api is Api.RESPONSES and before:
            begun: Body = before[0].body["response"]
            error = {"code": self.name, "message": self.message}
            failed: Body = {
                "type": "response.failed",
                "sequence_number": len(before),
                "response": {**begun, "status": "failed", "error": error},
            }
            return [*before, Frame(kind=FrameKind.LAST, event="response.failed", body=failed)]
        return [*before, error_frame(api, self.name, self.message)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUpFault(Fault):
    """The connection breaks off behind so many deltas: with a reset, or in good order. None is
    before any byte of the answer, 0 is behind the events that open it."""

    after_deltas: int | None = 1
    is_reset: bool = True

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        if self.after_deltas is None:
            return []
        return frames[: _behind(frames, self.after_deltas)]

    @override
    def sent(self, parts: Sequence[Part]) -> Sequence[Part]:
        return [*parts, Step.HANG_UP if self.is_reset else Step.CLOSE]

    @property
    @override
    def has_head(self) -> bool:
        return self.after_deltas is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceFault(Fault):
    """Behind so many deltas nothing more is said until the client leaves."""

    after_deltas: int = 1

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        return frames[: _behind(frames, self.after_deltas)]

    @override
    def sent(self, parts: Sequence[Part]) -> Sequence[Part]:
        return [*parts, Step.HOLD]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowFault(Fault):
    """So many seconds pass before each event."""

    seconds: float

    @override
    def sent(self, parts: Sequence[Part]) -> Sequence[Part]:
        return [each for part in parts for each in (Pause(self.seconds), part)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksFault(Fault):
    """The bytes go out in chunks of this size, wherever that falls."""

    size: int = 1

    @override
    def sent(self, parts: Sequence[Part]) -> Sequence[Part]:
        return [
            piece
            for part in parts
            for piece in (in_pieces(part, self.size) if isinstance(part, bytes) else (part,))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCharactersFault(Fault):
    """Chunks end inside of every character that takes more than one byte."""

    @override
    def sent(self, parts: Sequence[Part]) -> Sequence[Part]:
        return [
            piece
            for part in parts
            for piece in (_inside_characters(part) if isinstance(part, bytes) else (part,))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OddArgumentsFault(Fault):
    """Arguments of calls come in an odd shape."""

    shape: ArgumentShape | None = ArgumentShape.WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class NoUsageFault(Fault):
    """Nothing is said of tokens."""

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        kept = [frame for frame in frames if frame.kind is not FrameKind.USAGE]
        return [replace(frame, body=_without_usage(frame.body)) for frame in kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class OddStopFault(Fault):
    """The answer ends for a reason that nobody knows."""

    reason: str = "some_new_reason"

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        return [_restopped(frame, api, self.reason) for frame in frames]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenJsonFault(Fault):
    """An event that is no JSON, behind so many deltas; what comes after it is in order."""

    after_deltas: int = 1

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        place = _behind(frames, self.after_deltas)
        named = b"event: content_block_delta\n" if api is Api.MESSAGES else b""
        broken = Frame(kind=FrameKind.OTHER, raw=named + b'data: {"type": "content_blo\n\n')
        return [*frames[:place], broken, *frames[place:]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFault(Fault):
    """Comments, pings, blank lines and events of kinds unheard of stand between the others."""

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        return [each for frame in frames for each in (*_noise(api), frame)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoEndFault(Fault):
    """The last event is left out: `[DONE]`, `message_stop`, `response.completed`."""

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        return [frame for frame in frames if frame.kind is not FrameKind.LAST]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwiceEndedFault(Fault):
    """The last event comes twice."""

    @override
    def told(self, api: Api, frames: Sequence[Frame]) -> Sequence[Frame]:
        return [*frames, *(frame for frame in frames if frame.kind is FrameKind.LAST)]


def error_frame(api: Api, name: str, message: str) -> Frame:
    """An error as an event of a stream."""
    match api:
        case Api.MESSAGES:
            body: Body = {"type": "error", "error": {"type": name, "message": message}}
            return Frame(kind=FrameKind.OTHER, event="error", body=body)
        case Api.CHAT:
            body = {"error": {"message": message, "type": name, "code": name, "param": None}}
            return Frame(kind=FrameKind.OTHER, body=body)
        case Api.RESPONSES:
            body = {
                "type": "error",
                "sequence_number": 0,
                "code": name,
                "message": message,
                "param": None,
            }
            return Frame(kind=FrameKind.OTHER, event="error", body=body)


def _behind(frames: Sequence[Frame], deltas: int) -> int:
    """The place behind so many deltas; behind what opens the stream for none."""
    if not deltas:
        return next((n for n, f in enumerate(frames) if f.kind is not FrameKind.OPEN), 0)
    seen = 0
    for place, frame in enumerate(frames, start=1):
        seen += frame.kind is FrameKind.DELTA
        if seen == deltas:
            return place
    return len(frames)


def _inside_characters(part: bytes) -> Sequence[bytes]:
    """Cut before each byte that continues a character."""
    cuts = [n for n, byte in enumerate(part) if byte & 0xC0 == 0x80]
    return [part[a:b] for a, b in zip([0, *cuts], [*cuts, len(part)], strict=True)]


def _without_usage(body: Body) -> Body:
    kept: Body = {name: value for name, value in body.items() if name != "usage"}
    for inner in ("message", "response"):
        if isinstance(kept.get(inner), dict):
            kept[inner] = _without_usage(kept[inner])
    return kept


def _restopped(frame: Frame, api: Api, reason: str) -> Frame:
    if frame.kind not in {FrameKind.STOP, FrameKind.LAST, FrameKind.WHOLE}:
        return frame
    body, event = frame.body, frame.event
    match api:
        case Api.MESSAGES if "delta" in body:
            body = {**body, "delta": {**body["delta"], "stop_reason": reason}}
        case Api.MESSAGES if frame.kind is FrameKind.WHOLE:
            body = {**body, "stop_reason": reason}
        case Api.CHAT if body.get("choices"):
            choices: list[Any] = body["choices"]
            body = {**body, "choices": [{**c, "finish_reason": reason} for c in choices]}
        case Api.RESPONSES if "response" in body:
            event = "response.incomplete"
            answer = {**body["response"], **_odd_end(reason)}
            body = {**body, "type": event, "response": answer}
        case Api.RESPONSES:
            body = {**body, **_odd_end(reason)}
        case _:
            pass
    return replace(frame, body=body, event=event)


def _odd_end(reason: str) -> Body:
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _noise(api: Api) -> Sequence[Frame]:
    comment = Frame(kind=FrameKind.OTHER, raw=b": keep-alive\n\n\n")
    match api:
        case Api.MESSAGES:
            unheard: Body = {"type": "content_block_weather", "index": 7, "weather": "fine"}
            return (
                comment,
                Frame(kind=FrameKind.OTHER, event="ping", body={"type": "ping"}),
                Frame(kind=FrameKind.OTHER, event="content_block_weather", body=unheard),
            )
        case Api.CHAT:
            head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            choices: list[Body] = [{"index": 0, "delta": {}, "finish_reason": None}]
            return (
                comment,
                Frame(kind=FrameKind.OTHER, body={**head, "choices": []}),
                Frame(kind=FrameKind.OTHER, body={**head, "choices": choices}),
            )
        case Api.RESPONSES:
            body: Body = {"type": "response.weather.delta", "sequence_number": 0, "delta": "fine"}
            return (comment, Frame(kind=FrameKind.OTHER, event="response.weather.delta", body=body))
