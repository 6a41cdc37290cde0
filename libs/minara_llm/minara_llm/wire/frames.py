"""An answer between its meaning and its bytes: what is known of it, and the events it becomes."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from minara_llm.model import ModelToolCall
from minara_llm.wire.bodies import Body, dump
from minara_llm.wire.brain import Answer, AnswerPart
from minara_llm.wire.cache import CacheSeen
from minara_llm.wire.signatures import Signer


class ArgumentShape(StrEnum):
    """How the arguments of calls are cut. A shape that an API does not know is IN_PIECES there."""

    IN_PIECES = "in_pieces"
    WHOLE = "whole"
    FIRST_BRACE_WITH_NAME = "first_brace_with_name"
    NAME_ALONE = "name_alone"
    NULL_IDS = "null_ids"
    SAME_INDEX = "same_index"
    NO_INDEX = "no_index"
    EMPTY_PIECES = "empty_pieces"
    INTERLEAVED = "interleaved"


class FrameKind(Enum):
    """OPEN comes before the first delta, STOP says why it ended, LAST ends the stream."""

    OPEN = auto()
    DELTA = auto()
    OTHER = auto()
    USAGE = auto()
    STOP = auto()
    LAST = auto()
    WHOLE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One event: a body, or raw bytes. A WHOLE one is the body of an answer that is no stream."""

    kind: FrameKind
    body: Body = field(default_factory=dict[str, object])
    event: str = ""
    raw: bytes | None = None

    @property
    def sent(self) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.kind is FrameKind.WHOLE:
            return dump(self.body).encode()
        named = f"event: {self.event}\n" if self.event else ""
        return f"{named}data: {dump(self.body)}\n\n".encode()


class Ids:
    """Ids as a provider would give them: they never repeat, and name their server."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._count = 0

    def next(self, prefix: str) -> str:
        """Such as `toolu_01ab…`."""
        self._count += 1
        digest = hashlib.sha256(f"{self._server}/{self._count}".encode()).hexdigest()
        return f"{prefix}{digest[:22]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Everything an encoder needs. `shows_thinking` is whether the request lets thinking out, as
    text; `thinks` whether the model thinks at all. `piece` is the most characters of arguments
    that one fragment holds. `ids` go on counting."""

    answer: Answer
    model: str
    answer_id: str
    ids: Ids
    signer: Signer
    cache: CacheSeen
    output_tokens: int
    created: int = 0
    thinks: bool = True
    shows_thinking: bool = True
    shape: ArgumentShape = ArgumentShape.IN_PIECES
    piece: int = 7
    has_usage_chunk: bool = True
    diagnostics: Body | None = None
    asked: Body = field(default_factory=dict[str, object])


def cut(text: str, size: int) -> list[str]:
    """In pieces of at most `size` characters; none of an empty text."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def pieces_of(arguments: str, telling: Telling) -> list[str]:
    """The arguments as the shape cuts them."""
    match telling.shape:
        case ArgumentShape.WHOLE | ArgumentShape.NAME_ALONE:
            return [arguments]
        case ArgumentShape.EMPTY_PIECES:
            return [piece for part in cut(arguments, telling.piece) for piece in ("", part, "")]
        case _:
            return cut(arguments, telling.piece)


def counted(answer: Answer) -> int:
    """Output tokens of an answer, by the length of what it says."""
    said = sum(
        len((getattr(part, "arguments_json", "") or getattr(part, "text", "")).encode())
        for part in answer.parts
    )
    return answer.output_tokens or max(1, -(-said // 4))


def round_robin(columns: Sequence[Sequence[Frame]]) -> list[Frame]:
    """One of each in turn, until all are told."""
    longest = max((len(column) for column in columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def runs(parts: Iterable[AnswerPart]) -> list[list[AnswerPart]]:
    """Neighbours of one kind together; each call for itself."""
    found: list[list[AnswerPart]] = []
    for part in parts:
        if found and not isinstance(part, ModelToolCall) and type(found[-1][0]) is type(part):
            found[-1].append(part)
        else:
            found.append([part])
    return found


def texts_of(run: Sequence[AnswerPart]) -> list[str]:
    """The texts of a run of thoughts or texts."""
    return [part.text for part in run if not isinstance(part, ModelToolCall)]


def frames_sent(frames: Iterable[Frame]) -> bytes:
    """All of them as bytes."""
    return b"".join(frame.sent for frame in frames)
