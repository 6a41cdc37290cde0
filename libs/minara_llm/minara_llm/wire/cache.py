"""Prompt caches as providers keep them, and what each request could read of them.

A token is a quarter of a byte string's length here: ceil(bytes / 4) of a block's compact JSON in
the order it was sent, without `cache_control`. An image or document counts IMAGE_TOKENS whatever
its size. A request's entries are written as it arrives, not when its answer begins.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from minara_core.clock import Clock

LOOK_BACK = 20
"""Blocks before a marked one at which an earlier entry is still found."""
LIFE_SECONDS = 300.0
LONG_LIFE_SECONDS = 3_600.0
SHORTEST_AUTOMATIC = 1_024
AUTOMATIC_STEP = 128
IMAGE_TOKENS = 1_600


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBlock:
    """A block of a prompt. `part` is tools, system or messages; `text` is equal for equal bytes.
    `life_seconds` is above zero where the block carries a cache mark."""

    part: str
    text: str
    tokens: int
    life_seconds: float = 0.0

    @property
    def is_marked(self) -> bool:
        return self.life_seconds > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSeen:
    """Input tokens by where they came from; `total_tokens` is their sum. `longest_common_blocks`
    is how many blocks at the start equal those of some earlier request for the model."""

    read_tokens: int = 0
    written_tokens: int = 0
    fresh_tokens: int = 0
    total_tokens: int = 0
    longest_common_blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a request is to the cache. `settings` are those that void the messages' part alone;
    `cache_key` keeps callers of an automatic cache apart."""

    model: str
    blocks: tuple[PromptBlock, ...]
    settings: str = ""
    cache_key: str = ""

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.blocks)


@dataclass(slots=True)
class _Entry:
    life_seconds: float
    used_at: float


class _Commons:
    """Prefixes seen before, whatever became of them."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def longest(self, prompt: Prompt) -> int:
        keys = _chain(prompt, prompt.model)
        found = next((n for n in range(len(keys), 0, -1) if keys[n - 1] in self._seen), 0)
        self._seen.update(keys)
        return found


class MarkedCache:
    """Anthropic's: entries are written where blocks are marked, and found from marked blocks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[bytes, _Entry] = {}
        self._commons = _Commons()

    def take(self, prompt: Prompt, shortest: int) -> CacheSeen:
        """Account for one request; `shortest` is the least that is cached, in tokens."""
        now = self._clock.monotonic()
        keys = _chain(prompt, prompt.model, prompt.settings)
        ends = _ends(prompt.blocks)
        marks = [
            n for n, block in enumerate(prompt.blocks) if block.is_marked and ends[n] >= shortest
        ]
        read = self._read(keys, marks, now)
        for mark in marks:
            self._entries[keys[mark]] = _Entry(prompt.blocks[mark].life_seconds, now)
        read_tokens = ends[read] if read is not None else 0
        written = max(0, ends[marks[-1]] - read_tokens) if marks else 0
        return CacheSeen(
            read_tokens=read_tokens,
            written_tokens=written,
            fresh_tokens=prompt.tokens - read_tokens - written,
            total_tokens=prompt.tokens,
            longest_common_blocks=self._commons.longest(prompt),
        )

    def _read(self, keys: Sequence[bytes], marks: Sequence[int], now: float) -> int | None:
        """The end of the longest entry in reach of a mark, which lives on for being read."""
        reach = {
            place
            for mark in marks
            for place in range(max(0, mark - LOOK_BACK), mark + 1)
            if self._lives(keys[place], now)
        }
        if not reach:
            return None
        longest = max(reach)
        self._entries[keys[longest]].used_at = now
        return longest

    def _lives(self, key: bytes, now: float) -> bool:
        entry = self._entries.get(key)
        return entry is not None and now - entry.used_at < entry.life_seconds


class AutomaticCache:
    """OpenAI's: the longest common beginning with an earlier request counts, in whole steps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._earlier: dict[tuple[str, str], list[tuple[Prompt, _Entry]]] = {}
        self._commons = _Commons()

    def take(self, prompt: Prompt) -> CacheSeen:
        """Account for one request."""
        now = self._clock.monotonic()
        earlier = self._earlier.setdefault((prompt.model, prompt.cache_key), [])
        earlier[:] = [each for each in earlier if now - each[1].used_at < each[1].life_seconds]
        best, used = 0, None
        for known, entry in reversed(earlier):
            common = _common_tokens(known.blocks, prompt.blocks)
            if common > best:
                best, used = common, entry
        read = _in_steps(min(best, prompt.tokens))
        if used is not None and read:
            used.used_at = now
        earlier.append((prompt, _Entry(LIFE_SECONDS, now)))
        written = max(0, _in_steps(prompt.tokens) - read)
        return CacheSeen(
            read_tokens=read,
            written_tokens=written,
            fresh_tokens=prompt.tokens - read - written,
            total_tokens=prompt.tokens,
            longest_common_blocks=self._commons.longest(prompt),
        )


def common_blocks(one: Sequence[PromptBlock], other: Sequence[PromptBlock]) -> int:
    """How many blocks at the start are equal."""
    for n, (ours, theirs) in enumerate(zip(one, other, strict=False)):
        if (ours.part, ours.text) != (theirs.part, theirs.text):
            return n
    return min(len(one), len(other))


def _common_tokens(one: Sequence[PromptBlock], other: Sequence[PromptBlock]) -> int:
    """Also the beginning of the first block that differs."""
    same = common_blocks(one, other)
    tokens = sum(block.tokens for block in one[:same])
    if same < min(len(one), len(other)):
        ours, theirs = one[same].text.encode(), other[same].text.encode()
        alike = next(
            (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        tokens += alike // 4
    return tokens


def _in_steps(tokens: int) -> int:
    return tokens - tokens % AUTOMATIC_STEP if tokens >= SHORTEST_AUTOMATIC else 0


def _ends(blocks: Sequence[PromptBlock]) -> list[int]:
    ends: list[int] = []
    for block in blocks:
        ends.append((ends[-1] if ends else 0) + block.tokens)
    return ends


def _chain(prompt: Prompt, start: str, settings: str | None = None) -> list[bytes]:
    """A key for each block that stands for it and all before it."""
    key = hashlib.sha256(start.encode()).digest()
    keys: list[bytes] = []
    is_in_messages = False
    for block in prompt.blocks:
        if block.part == "messages" and not is_in_messages:
            is_in_messages = True
            key = hashlib.sha256(key + (settings or "").encode()).digest()
        text = block.text.encode()
        key = hashlib.sha256(b"%s%s\0%s" % (key, block.part.encode(), text)).digest()
        keys.append(key)
    return keys
