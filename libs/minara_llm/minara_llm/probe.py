"""Whether a model answers at all: one tiny message, which proves key, account, model and wire."""

import asyncio
from contextlib import aclosing

from minara_core.messages import user_message
from minara_llm.model import ChatModel, FailureKind, ModelFailure, ModelRequest
from minara_llm.offline.model import OFFLINE_PROVIDER
from minara_llm.wire_errors import failure

PROBE_SECONDS = 20.0
_OUTPUT_TOKENS = 64


async def probe(model: ChatModel) -> None:
    """Ask for a word and read it to its end. Raises ModelFailure."""
    if model.provider == OFFLINE_PROVIDER:
        return
    request = ModelRequest(
        model=model.name,
        system=(),
        tools=(),
        messages=(user_message("Say ok."),),
        max_output_tokens=_OUTPUT_TOKENS,
        session_id="probe",
    )
    try:
        async with asyncio.timeout(PROBE_SECONDS), aclosing(model.stream(request)) as events:
            async for _ in events:
                pass
    except TimeoutError as error:
        raise _late(model) from error


def _late(model: ChatModel) -> ModelFailure:
    return failure(model.provider, FailureKind.TIMEOUT)
