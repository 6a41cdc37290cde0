"""A session of ten turns as a provider's prompt cache sees it: the fixture of the cache's figures.

All installed tools; SOUL and AGENTS of 6 KB, USER of 2, MEMORY of 12, three daily logs of 4; skills
that change every third turn and one that the model activates; two steps a turn with two calls each
whose results have 1 to 2 KB; and a history that is compacted on its way.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from pydantic import TypeAdapter

from minara_core.clock import SystemClock
from minara_core.ids import UserId
from minara_gateway.client import StreamedEvent
from minara_llm.model import ModelRequest, ModelText, ModelToolCall
from minara_llm.wire.brain import Answer
from minara_llm.wire.http import serving
from minara_llm.wire.provider import Exchange, Provider
from minara_tools.adapters.sandbox_files import SandboxFiles
from support.minara import Minara, a_minara, finish_reason, named

TURNS = 10
CONTEXT_WINDOW = 48_000
"""So small that the session is compacted before its end."""

MESSAGES = (
    *("what is trending today?", "and what else is trending?", "trending tokens once more"),
    *("technical analysis of BTC", "RSI and MACD of ETH, please", "chart analysis of SOL"),
    *(
        "is PEPE safe? then a technical analysis of it, what trends, and my portfolio",
        "my portfolio, and is BONK safe? trending too, with its RSI",
        "technical analysis, safety of PEPE, the trending market and my portfolio again",
    ),
    "price of BTC",
)
_ACTIVATED_IN_TURN = 5
_FILES = {f"note-{number}.md": 1_000 + 130 * number for number in range(8)}


def settings(url: str, api: str) -> dict[str, str]:
    """What an orchestrator needs that is to ask the provider at `url` by this API."""
    common = {"MINARA_CONTEXT_WINDOW": str(CONTEXT_WINDOW), "MINARA_MODEL_FALLBACKS": "none"}
    if api == "anthropic":
        return common | {"ANTHROPIC_API_KEY": "key", "MINARA_ANTHROPIC_BASE_URL": url}
    return common | {
        "OPENAI_API_KEY": "key",
        "MINARA_OPENAI_BASE_URL": f"{url}/v1",
        "MINARA_OPENAI_API": api,
        "MINARA_MODEL": "openai:gpt-6-sol" if api == "responses" else "openai:qwen3",
        "MINARA_BATCH_MODEL": "openai:gpt-6-luna" if api == "responses" else "openai:qwen3",
    }


class SessionBrain:
    """Asks for two calls in each of two steps, then answers; whoever has no tools is summarised."""

    def __init__(self) -> None:
        self._asked = 0

    async def answer(self, request: ModelRequest) -> Answer:
        if not request.tools:
            summary = "The person watches trends and asks for analyses. Notes were read. " * 12
            return Answer(parts=(ModelText(text=summary),))
        turn, step = divmod(self._asked, 3)
        self._asked += 1
        if step == 2:
            return Answer(parts=(ModelText(text=f"That is what I found in turn {turn}. " * 6),))
        return Answer(
            parts=(
                ModelText(text="Let me read."),
                *(self._call(turn, 2 * step + place) for place in range(2)),
            )
        )

    def _call(self, turn: int, place: int) -> ModelToolCall:
        if turn == _ACTIVATED_IN_TURN and place == 3:
            wanted = {"skill_ids": ["market.overview"]}
            return ModelToolCall(name="activate_skills", arguments_json=json.dumps(wanted))
        name = list(_FILES)[(4 * turn + place) % len(_FILES)]
        return ModelToolCall(name="read_file", arguments_json=json.dumps({"path": name}))


async def furnish(data_dir: Path, pages: Path, user_id: UserId) -> None:
    """Write the pages, the logs and the files that the session reads."""
    (pages / "memory").mkdir(parents=True, exist_ok=True)
    sizes = {"SOUL.md": 3_000, "AGENTS.md": 3_000, "USER.md": 2_000, "MEMORY.md": 12_000}
    sizes |= {f"memory/2026-11-{day}.md": 4_000 for day in (27, 28, 29)}
    for name, size in sizes.items():
        (pages / name).write_text(_prose(name, size), "utf-8")
    box = SandboxFiles(data_dir / "sandbox" / "files")
    for name, size in _FILES.items():
        await box.write(user_id, name, _prose(name, size).encode())


def _prose(name: str, size: int) -> str:
    line = f"{name} says that 比特幣 and ether were watched, and that nothing was decided.\n"
    return (line * (size // len(line) + 1))[:size]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """`share` is what of all input tokens but the first request's could be read from the cache.
    `broken` pairs of requests do not extend each other; `compactions` says how many may."""

    requests: int
    share: float
    compactions: int
    broken: int
    changed_prefixes: int
    fewest_skills: int
    most_skills: int
    prefix: tuple[str, ...]
    rungs: tuple[str, ...]

    def line(self, label: str) -> str:
        """For people."""
        return (
            f"{label}: {self.requests} requests, {self.share:.1%} of input tokens readable, "
            f"compacted {self.compactions} times ({', '.join(self.rungs)}), "
            f"{self.changed_prefixes} prefixes changed, "
            f"{self.fewest_skills} to {self.most_skills} skills"
        )


async def play(minara: Minara, provider: Provider) -> Figures:
    """Say the ten messages; what the provider's cache made of them."""
    events: list[StreamedEvent] = []
    skills: list[int] = []
    for message in MESSAGES:
        told = await minara.say(message)
        assert finish_reason(told) == "stop"
        skills.append(len(named(told, "turn_started")[0]["skill_ids"]))
        events += told
    assert not provider.broken
    asked = [each for each in provider.exchanges if any(b.part == "tools" for b in each.blocks)]
    assert all(each.refusal is None for each in provider.exchanges)
    return _figures(asked, events, skills)


def _figures(
    asked: Sequence[Exchange], events: Sequence[StreamedEvent], skills: Sequence[int]
) -> Figures:
    seen = [each.cache for each in asked[1:] if each.cache is not None]
    compacted = named(events, "context_compacted")
    return Figures(
        requests=len(asked),
        share=sum(each.read_tokens for each in seen) / sum(each.total_tokens for each in seen),
        compactions=len({str(each["tokens_before"]) for each in compacted}),
        broken=sum(not _extends(after, before) for before, after in pairwise(asked)),
        changed_prefixes=sum(
            prefix_of(after) != prefix_of(before) for before, after in pairwise(asked)
        ),
        fewest_skills=min(skills),
        most_skills=max(skills),
        prefix=prefix_of(asked[0]),
        rungs=tuple(str(each["rung"]) for each in compacted),
    )


def prefix_of(exchange: Exchange) -> tuple[str, ...]:
    """Blocks 0 to 3: the tools, and the system prompt wherever its API carries it."""
    texts = [block.text for block in exchange.blocks if block.part in {"tools", "system"}]
    return tuple(texts)


def _extends(after: Exchange, before: Exchange) -> bool:
    return after.texts[: len(before.texts)] == before.texts


async def measure(data_dir: Path, api: str) -> Figures:
    """The figures of an embedded Minara of its own."""
    provider = Provider(SessionBrain(), SystemClock())
    async with serving(provider):
        given = {_field(name): value for name, value in settings(provider.url, api).items()}
        async with a_minara(data_dir, orchestrator=given) as minara:
            await furnish(data_dir, data_dir / "pages", minara.user_id)
            return await play(minara, provider)


def _field(variable: str) -> str:
    return variable.removeprefix("MINARA_").lower()


def read_figures(text: str) -> Figures:
    """What `python -m support.cached_session` printed."""
    return TypeAdapter(Figures).validate_json(text)


if __name__ == "__main__":
    folder, spoken = sys.argv[1:]
    sys.stdout.write(json.dumps(asdict(asyncio.run(measure(Path(folder), spoken)))))
