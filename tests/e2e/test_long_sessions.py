"""However long the session and however large a result, the turn goes on: in one process, and as
five over TCP, against a provider that refuses what real ones refuse."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from minara_core.clock import SystemClock
from minara_core.messages import Message, Role, ToolResultBlock
from minara_core.tooling import dump_json
from minara_llm.model import ModelRequest, ModelText, ModelToolCall
from minara_llm.wire.brain import Answer
from minara_llm.wire.http import serving
from minara_llm.wire.models import WireModel
from minara_llm.wire.provider import Provider
from support.cluster import Cluster
from support.installations import Processes, new_person
from support.minara import Minara, a_minara, finish_reason, named, text_of
from support.nursery import Nursery

WINDOW = 40_000
TURNS = 200
FACT = re.compile(r"FACT-\d+")
FILE_BYTES = 5_000_000
MIDDLE = 2_500_000


class Talker:
    """Implements Brain. It asks for a price when somebody speaks, follows a cut result into the
    middle of the whole, and keeps every FACT of what it summarises."""

    async def answer(self, request: ModelRequest) -> Answer:
        if not request.tools:
            kept = sorted({fact for m in request.messages for fact in FACT.findall(m.text)})
            return _says("Facts: " + " ".join(kept))
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return _after(_result(last))
        said = _person(request)
        if "big.txt" in said:
            return _calls("read_file", path="big.txt")
        return _calls("get_price", symbol="BTC" if len(said) % 2 else "ETH")


def _after(result: str) -> Answer:
    whole = re.search(r"result://[\w.-]+/\d+\.\d+", result)
    if whole is not None and "is_cut" in result:
        return _calls("read_result", uri=whole.group(), offset=MIDDLE - 200, limit=1_000)
    found = re.search(r"needle[\w-]+", result)
    return _says(f"I found {found.group()}" if found else "noted. " * 60)


def _says(text: str) -> Answer:
    return Answer(parts=(ModelText(text=text),))


def _calls(name: str, **arguments: object) -> Answer:
    return Answer(parts=(ModelToolCall(name=name, arguments_json=dump_json(arguments)),))


def _result(message: Message) -> str:
    return "".join(b.envelope for b in message.blocks if isinstance(b, ToolResultBlock))


def _person(request: ModelRequest) -> str:
    return next(m.text for m in reversed(request.messages) if m.role is Role.USER)


@dataclass(frozen=True)
class Place:
    """Somebody in a running Minara, its provider, and their folder of files."""

    minara: Minara
    provider: Provider
    files: Path

    def assert_nothing_was_refused(self) -> None:
        refused = [e.refusal for e in self.provider.exchanges if e.refusal is not None]
        assert not refused
        assert not self.provider.broken


@asynccontextmanager
async def embedded(provider: Provider, folder: Path) -> AsyncGenerator[Place]:
    async with a_minara(folder / "data", orchestrator=_settings(provider)) as minara:
        yield Place(minara, provider, folder / "data" / "sandbox" / "files" / minara.user_id)


@asynccontextmanager
async def processes(provider: Provider, folder: Path, nursery: Nursery) -> AsyncGenerator[Place]:
    settings = {f"MINARA_{name.upper()}": value for name, value in _settings(provider).items()}
    cluster = Cluster(nursery, folder, environment=settings)
    installation = Processes(cluster)
    async with AsyncExitStack() as stack:
        stack.callback(installation.close)
        await installation.start()
        minara = await new_person(installation)
        stack.push_async_callback(minara.aclose)
        yield Place(minara, provider, cluster.data_dir / "sandbox" / "files" / minara.user_id)


def _settings(provider: Provider) -> Mapping[str, str]:
    return {
        "model": "openai:small",
        "batch_model": "openai:small",
        "openai_base_url": f"{provider.url}/v1",
        "context_window": str(WINDOW),
    }


@pytest.fixture(params=["embedded", "processes"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, nursery: Nursery
) -> AsyncGenerator[Place]:
    small = WireModel(name="small", context_window=WINDOW, max_output=8_192)
    provider = Provider(Talker(), SystemClock(), models=(small,), is_compatible=True)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(provider))
        running = (
            embedded(provider, tmp_path)
            if request.param == "embedded"
            else processes(provider, tmp_path, nursery)
        )
        yield await stack.enter_async_context(running)


async def test_two_hundred_turns_fit_a_small_window_and_keep_the_first_facts(place: Place) -> None:
    compacted: list[str] = []
    for number in range(1, TURNS + 1):
        fact = f"FACT-{number} " if number <= 3 else ""
        events = await place.minara.say(f"{fact}price of BTC please, take {number}. " + "so " * 300)
        assert finish_reason(events) == "stop"
        compacted += [fields["rung"] for fields in named(events, "context_compacted")]
    place.assert_nothing_was_refused()
    assert compacted.count("summary") >= 5
    assert len(compacted) < TURNS // 10
    last = place.provider.exchanges[-1]
    assert last.cache is not None
    assert last.cache.total_tokens < WINDOW
    everything = "\n".join(last.texts)
    assert all(f"FACT-{number}" in everything for number in (1, 2, 3))
    assert "take 2. " not in everything


async def test_a_result_of_five_megabytes_is_read_in_parts(place: Place) -> None:
    place.files.mkdir(parents=True, exist_ok=True)
    needle = "needle-in-the-middle"
    text = "x" * MIDDLE + f" {needle} " + "y" * (FILE_BYTES - MIDDLE)
    (place.files / "big.txt").write_text(text, "utf-8")
    events = await place.minara.say("what does big.txt say?")
    assert finish_reason(events) == "stop"
    assert text_of(events) == f"I found {needle}"
    place.assert_nothing_was_refused()
    assert all(
        e.cache is not None and e.cache.total_tokens < WINDOW for e in place.provider.exchanges
    )
