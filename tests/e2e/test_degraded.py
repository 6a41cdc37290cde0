"""With every provider down Minara still reads, says that it is degraded, and prepares no orders."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from minara_core.clock import SystemClock
from minara_llm.offline.phrases import phrases_for
from minara_llm.wire.brain import RulesBrain
from minara_llm.wire.faults import StatusFault
from minara_llm.wire.http import serving
from minara_llm.wire.provider import Provider
from support.hundred import envelopes_of
from support.invented import invented_numbers
from support.minara import EmbeddedMinara, a_minara, finish_reason, named, text_of, tools_called

BALANCES = {"USDC": "1234"}
NOBODY_LISTENS = "http://127.0.0.1:9"


def _claude_at(url: str) -> Mapping[str, str]:
    return {"anthropic_api_key": "key", "anthropic_base_url": url, "model": "anthropic"}


@asynccontextmanager
async def unreachable(folder: Path) -> AsyncGenerator[EmbeddedMinara]:
    async with a_minara(
        folder, balances=BALANCES, orchestrator=_claude_at(NOBODY_LISTENS)
    ) as minara:
        yield minara


@asynccontextmanager
async def overloaded(folder: Path) -> AsyncGenerator[EmbeddedMinara]:
    provider = Provider(RulesBrain(), SystemClock())
    provider.always(StatusFault(status=529, retry_after="0"))
    async with (
        serving(provider),
        a_minara(folder, balances=BALANCES, orchestrator=_claude_at(provider.url)) as minara,
    ):
        yield minara


@pytest.mark.parametrize("down", [unreachable, overloaded])
async def test_a_balance_is_read_in_three_languages_and_every_answer_says_degraded(
    tmp_path: Path, down: Callable[[Path], AbstractAsyncContextManager[EmbeddedMinara]]
) -> None:
    async with down(tmp_path) as minara:
        for question in ("what is my balance?", "我的餘額是多少？", "내 잔고는 얼마야?"):
            events = await minara.say(question)
            answer = text_of(events)
            assert finish_reason(events) == "degraded"
            assert tools_called(events) == ["get_portfolio"]
            assert answer.startswith(phrases_for(question)["degraded"])
            assert "1234" in answer
            assert not invented_numbers(answer, question, envelopes_of(events))


@pytest.mark.parametrize("text", ["buy 50 USDC of ETH", "買 50 USDC 的 ETH", "ETH 50 USDC 매수"])
async def test_no_order_is_prepared_and_the_other_ways_are_named(tmp_path: Path, text: str) -> None:
    async with overloaded(tmp_path) as minara:
        events = await minara.say(text)
        assert finish_reason(events) == "degraded"
        assert tools_called(events) == []
        assert named(events, "approval_requested") == []
        assert phrases_for(text)["degraded_orders"] in text_of(events)
        assert not await minara.rows("tools", "pending_actions")
