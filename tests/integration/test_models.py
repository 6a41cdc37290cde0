"""Models as people see them: over HTTP, in the chat and from the command line, on the real wire."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from minara_core.clock import SystemClock
from minara_core.ids import UserId
from minara_gateway.client import ProblemError, StreamedEvent
from minara_gateway.repl import Repl
from minara_llm.model import ModelRequest, ModelText, ModelToolCall
from minara_llm.wire.brain import Answer
from minara_llm.wire.faults import HangUpFault, StatusFault
from minara_llm.wire.http import serving
from minara_llm.wire.provider import Provider
from support import process
from support.installations import new_person
from support.minara import EmbeddedMinara, a_minara, finish_reason, named

SONNET, QWEN = "anthropic:claude-sonnet-5-5", "openai:qwen3"


class Talker:
    """A brain that says which model it is, after a call if `calls_first`; it waits while it is
    held. Whoever asks without tools only proves that somebody is there."""

    def __init__(self) -> None:
        self.calls_first = False
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def answer(self, request: ModelRequest) -> Answer:
        if not request.tools:
            return Answer(parts=(ModelText(text="ok"),))
        self.asked.set()
        await self.go.wait()
        if self.calls_first:
            self.calls_first = False
            return Answer(parts=(ModelToolCall(name="get_fear_greed", arguments_json="{}"),))
        return Answer(parts=(ModelText(text=f"I am {request.model}."),))


@asynccontextmanager
async def a_house(
    folder: Path, **settings: str
) -> AsyncGenerator[tuple[EmbeddedMinara, Provider, Talker]]:
    """A Minara that may ask Claude at one provider and Qwen at the same one."""
    talker = Talker()
    provider = Provider(talker, SystemClock())
    async with serving(provider):
        given: Mapping[str, str] = {
            "anthropic_api_key": "key",
            "anthropic_base_url": provider.url,
            "openai_api_key": "key",
            "openai_base_url": f"{provider.url}/v1",
            "model": "anthropic",
            "model_fallbacks": QWEN,
            **settings,
        }
        async with a_minara(folder, orchestrator=given) as minara:
            yield minara, provider, talker


def text_of(events: list[StreamedEvent]) -> str:
    return "".join(str(delta["text"]) for delta in named(events, "text_delta"))


async def choose(minara: EmbeddedMinara, model: str) -> dict[str, Any]:
    return await minara.client.call("PUT", "/v1/models/chosen", {"model": model})


async def test_the_models_and_what_may_be_chosen_are_listed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, provider, _):
        answer = await minara.client.call("GET", "/v1/models")
        assert [f"{m['provider']}:{m['name']}" for m in answer["choices"]] == [SONNET, QWEN]
        assert [role["role"] for role in answer["roles"]] == ["main", "batch", "vision"]
        assert (answer["chosen_model"], answer["active_model"]) == ("", SONNET)
        assert [model["has_price"] for model in answer["choices"]] == [True, False]
        assert provider.exchanges == []
        listed = await minara.client.call("GET", "/v1/models/anthropic")
        assert "claude-sonnet-5-5" in listed["names"]


async def test_a_choice_speaks_from_the_next_turn_on(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, _, __):
        assert text_of(await minara.say("hello")) == "I am claude-sonnet-5-5."
        assert await choose(minara, QWEN) == {"chosen_model": QWEN, "active_model": QWEN}
        events = await minara.say("and now?")
        assert text_of(events) == "I am qwen3."
        assert named(events, "turn_started")[0]["model"] == "qwen3"
        assert (await choose(minara, ""))["active_model"] == SONNET
        assert text_of(await minara.say("and now?")) == "I am claude-sonnet-5-5."


async def test_a_turn_that_runs_finishes_with_the_model_it_began_with(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, _, talker):
        talker.calls_first = True
        talker.go.clear()
        turn = asyncio.create_task(minara.say("the mood of the market?"))
        await talker.asked.wait()
        await choose(minara, QWEN)
        talker.go.set()
        assert text_of(await turn) == "I am claude-sonnet-5-5."


async def test_a_choice_outlives_a_restart(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, _, __):
        await choose(minara, QWEN)
        async with minara.installation.down("orchestrator"):
            pass
        assert text_of(await minara.say("hello")) == "I am qwen3."


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        (StatusFault(status=401), 400, "MODEL_REFUSED"),
        (StatusFault(status=404), 400, "MODEL_REFUSED"),
        (StatusFault(status=529), 503, "MODEL_UNAVAILABLE"),
        (HangUpFault(after_deltas=None), 503, "MODEL_UNAVAILABLE"),
    ],
)
async def test_a_model_that_does_not_answer_is_not_chosen(
    tmp_path: Path, fault: StatusFault | HangUpFault, status: int, reason: str
) -> None:
    async with a_house(tmp_path) as (minara, provider, _):
        provider.always(fault)
        with pytest.raises(ProblemError) as refused:
            await choose(minara, QWEN)
        assert (refused.value.status, refused.value.reason) == (status, reason)
        provider.always()
        assert text_of(await minara.say("hello")) == "I am claude-sonnet-5-5."


@pytest.mark.parametrize("model", ["google:gemini", "xai", "no such thing", "ollama:qwen3"])
async def test_what_is_not_configured_cannot_be_chosen(tmp_path: Path, model: str) -> None:
    async with a_house(tmp_path) as (minara, _, __):
        with pytest.raises(ProblemError) as refused:
            await choose(minara, model)
        assert refused.value.status == 400


async def test_forgetting_a_choice_is_said_and_not_left_out(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, _, __):
        await choose(minara, QWEN)
        with pytest.raises(ProblemError) as refused:
            await minara.client.call("PUT", "/v1/models/chosen", {})
        assert refused.value.status == 400
        assert (await minara.client.call("GET", "/v1/models"))["chosen_model"] == QWEN


async def test_one_persons_choice_is_not_anothers(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, _, __):
        await choose(minara, QWEN)
        other = await new_person(minara.installation, user_id=UserId("ada"))
        assert text_of(await other.say("hello")) == "I am claude-sonnet-5-5."
        with pytest.raises(ProblemError) as refused:
            await other.client.call("PUT", "/v1/models/chosen", {"model": "anthropic:claude-x"})
        assert refused.value.reason == "MODEL_UNKNOWN"
        await other.aclose()


@pytest.mark.parametrize(
    "question", ["what is my balance?", "我的餘額是多少？", "내 잔고는 얼마야?"]
)
async def test_with_every_provider_down_a_balance_is_still_read_and_the_turn_says_degraded(
    tmp_path: Path, question: str
) -> None:
    async with a_house(tmp_path) as (minara, provider, _):
        provider.always(StatusFault(status=529, retry_after="0"))
        events = await minara.say(question)
        assert finish_reason(events) == "degraded"
        assert "100000" in text_of(events)
        switched = [each["to_model"] for each in named(events, "model_switched")]
        assert switched == [QWEN, "offline:offline-1"]


@pytest.mark.parametrize(
    ("message", "words"),
    [("price of BTC", "MINARA_MAX_TURN_USD"), ("比特幣價格", "單一回合的上限")],
)
async def test_a_turn_that_a_limit_ends_says_which_in_the_persons_language(
    tmp_path: Path, message: str, words: str
) -> None:
    async with a_house(tmp_path, max_turn_usd="0.0001") as (minara, provider, _):
        reply = await minara.client.call("POST", "/v1/chat", {"message": message})
        assert (reply["finish_reason"], reply["limit"]) == ("budget", "turn_usd")
        assert words in reply["reply"]
        assert provider.exchanges == []


async def test_a_reply_names_the_model_that_stood_in(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, provider, _):
        provider.meet(StatusFault(status=401))
        reply = await minara.client.call("POST", "/v1/chat", {"message": "hello"})
        assert reply["notices"] == [f"{SONNET} did not answer (authentication); {QWEN} went on"]


async def test_the_prompt_of_a_later_message_shows_the_history(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, _, __):
        await minara.say("remember the number 4711")
        body = {"message": "which?", "session_id": minara.session_id}
        answer = await minara.client.call("POST", "/v1/chat/prompt", body)
        history = next(b for b in answer["blocks"] if b["name"] == "history")
        assert "[user] remember the number 4711" in history["text"]
        assert "[assistant] I am claude-sonnet-5-5." in history["text"]
        names = [block["name"] for block in answer["blocks"]]
        assert names.index("memory") < names.index("history") < names.index("signal")


async def test_when_they_are_back_they_speak_again(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, provider, _):
        provider.always(StatusFault(status=529, retry_after="0"))
        assert finish_reason(await minara.say("what is my balance?")) == "degraded"
        provider.always()
        assert text_of(await minara.say("hello")) == "I am claude-sonnet-5-5."


async def test_a_reply_as_json_has_no_word_of_a_voided_attempt(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, provider, talker):
        talker.calls_first = True
        provider.meet()
        provider.meet(HangUpFault(after_deltas=2))
        reply = await minara.client.call("POST", "/v1/chat", {"message": "the mood, please"})
        assert reply["reply"] == "I am claude-sonnet-5-5."


class Lines:
    """Implements LineSource."""

    is_terminal = True
    reads_beside = False
    has_begun = False

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    async def read(self, prompt: str) -> str | None:
        return self._lines.pop(0) if self._lines else None


async def test_the_chat_shows_models_chooses_one_and_tells_of_a_switch(tmp_path: Path) -> None:
    async with a_house(tmp_path) as (minara, provider, _):
        console = Console(file=StringIO(), width=200, no_color=True)
        repl = Repl(minara.client, console, print_trace=lambda _: None)
        await repl.run(Lines("/model", f"/model {QWEN}", "hello", "/model none", "/model xai"))
        provider.meet(StatusFault(status=401))
        await repl.run(Lines("hello"))
        assert isinstance(console.file, StringIO)
        shown = console.file.getvalue()
    assert f"answers first: {SONNET}" in shown
    assert "price unknown: dollar limits do not bind" in shown
    assert f"{QWEN} answered, and speaks from your next message on" in shown
    assert "I am qwen3." in shown
    assert "your choice is forgotten" in shown
    assert "MODEL_UNKNOWN" in shown
    assert f"({SONNET} did not answer: authentication; {QWEN} goes on)" in shown


def test_models_are_shown_and_chosen_from_the_command_line(tmp_path: Path) -> None:
    shown = process.minara(tmp_path, "model", OPENAI_API_KEY="key", MINARA_MODEL="openai")
    assert shown.returncode == 0, shown.stderr
    assert "answers first: openai:gpt-6-sol" in shown.stdout
    refused = process.minara(tmp_path, "model", "use", "google:gemini", OPENAI_API_KEY="key")
    assert refused.returncode == 1
    assert "MODEL_UNKNOWN" in refused.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MINARA_MODEL", "google:gemini"),
        ("MINARA_MODEL_FALLBACKS", '["anthropic"]'),
        ("MINARA_BATCH_MODEL", "google:gemini"),
        ("MINARA_ANTHROPIC_BASE_URL", "localhost:8095"),
        ("MINARA_CONTEXT_WINDOW", "100"),
        ("MINARA_MAX_TURN_USD", "0"),
    ],
)
def test_a_setting_that_cannot_be_ends_the_start_with_2_and_its_name(
    tmp_path: Path, variable: str, value: str
) -> None:
    ended = process.minara(tmp_path, "model", **{variable: value})
    assert ended.returncode == 2
    assert variable in ended.stderr
    assert "Traceback" not in ended.stderr
