"""A simulated provider for tests, and the unmodified SDKs that talk to it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from minara_core.clock import Clock
from minara_llm.wire.brain import Script, ScriptedBrain
from minara_llm.wire.http import serving
from minara_llm.wire.provider import Provider
from support.clock import FixedClock


class ScriptedProvider(Provider):
    """Answers from a script; `answer` adds to it."""

    brain: ScriptedBrain

    def answer(self, *scripts: Script) -> None:
        """More answers, one for each question that is not refused."""
        self.brain.add(*scripts)


@asynccontextmanager
async def a_provider(
    *scripts: Script, clock: Clock | None = None, **options: Any
) -> AsyncGenerator[ScriptedProvider]:
    """Serves all three APIs while the body runs. `options` are those of Provider."""
    brain = ScriptedBrain(scripts)
    provider = ScriptedProvider(brain, clock or FixedClock(), **options)
    async with serving(provider):
        yield provider


def anthropic_sdk(provider: Provider, *, api_key: str = "key") -> AsyncAnthropic:
    """The SDK as our adapter makes it: without attempts of its own."""
    return AsyncAnthropic(api_key=api_key, base_url=provider.url, max_retries=0, timeout=10)


def openai_sdk(provider: Provider, *, api_key: str = "key") -> AsyncOpenAI:
    """The SDK as our adapter makes it: without attempts of its own."""
    return AsyncOpenAI(api_key=api_key, base_url=f"{provider.url}/v1", max_retries=0, timeout=10)
