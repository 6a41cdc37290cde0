"""`minara dev wire`: a provider on loopback, for people without a key."""

import asyncio
import signal
from collections.abc import Callable, Sequence

from minara_core.clock import SystemClock
from minara_llm.wire.brain import Brain, RulesBrain, ScriptedBrain
from minara_llm.wire.http import serving
from minara_llm.wire.provider import Exchange, Provider
from minara_llm.wire.scripts import read_script


async def run_dev_wire(*, port: int, script: str | None, say: Callable[[str], None]) -> None:
    """Serve until interrupted; `say` gets each line for people. Port 0 is any free one.

    `script` is the text of a script; None answers by rules. Raises InvalidRequest for a script
    that is none, Conflict when the port is taken.
    """
    stop = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    lines = [] if script is None else read_script(script)
    brain: Brain = RulesBrain() if script is None else ScriptedBrain(line.answer for line in lines)

    def tell(done: Exchange) -> None:
        say(told(done))
        provider.exchanges.clear()  # nobody reads them here, and they are long
        provider.requests.clear()

    # Minara takes any address but OpenAI's own for a compatible server.
    provider = Provider(brain, SystemClock(), is_compatible=True, on_exchange=tell)
    for line in lines:
        provider.meet(*line.faults)
        if any(fault.is_refusing for fault in line.faults):
            provider.meet()  # the answer is still due: who asks again gets it
    async with serving(provider, port=port):
        for each in how_to(provider.url):
            say(each)
        await stop.wait()


def how_to(url: str) -> Sequence[str]:
    """Where it serves, and what to set to be served."""
    compatible = f"OPENAI_API_KEY=dev MINARA_OPENAI_BASE_URL={url}/v1"
    return (
        f"serving model APIs on {url}",
        f"  Anthropic Messages       {url}",
        f"  OpenAI Chat Completions  {url}/v1",
        f"  OpenAI Responses         {url}/v1",
        "try it with one of:",
        f"  ANTHROPIC_API_KEY=dev MINARA_ANTHROPIC_BASE_URL={url} minara chat",
        f"  {compatible} minara chat",
        f"  {compatible} MINARA_OPENAI_API=responses minara chat",
    )


def told(done: Exchange) -> str:
    """One line about a request."""
    what = f"{done.api} {done.model}".strip()
    if done.refusal is not None:
        return f"{what}: refused, {done.refusal.status}: {done.refusal.message}"
    if done.cache is None:
        return f"{what}: hung up on"
    seen = done.cache
    return (
        f"{what}: {seen.total_tokens:,} tokens in, {seen.read_tokens:,} read from the cache,"
        f" {seen.written_tokens:,} written, {seen.fresh_tokens:,} fresh;"
        f" {seen.longest_common_blocks} of {len(done.blocks)} blocks as before"
    )
