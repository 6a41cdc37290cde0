"""Anthropic's models over the official SDK, which is imported at the first call: it is heavy."""

import asyncio
import importlib
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from minara_llm.anthropic_reply import AnthropicReply
from minara_llm.anthropic_request import (
    DOCUMENTS,
    PROVIDER,
    Body,
    MessagesDialect,
    has_system_messages,
    has_thinking,
    messages_request,
)
from minara_llm.clean_text import cleaned
from minara_llm.model import FailureKind, ModelEvent, ModelFailure, ModelRequest
from minara_llm.prices import UNKNOWN_WINDOW, facts_of
from minara_llm.sent_files import accepted_files
from minara_llm.wire_errors import failure, kind_of, retry_after
from minara_llm.wire_values import UNREADABLE

BASE_URL = "https://api.anthropic.com"
TIMEOUT_SECONDS = 120.0
"""The longest silence of the provider, before and between events."""

MOST_NAMES = 1_000
"""Models that are listed at most."""

_NO_SYSTEM = re.compile(r"\brole\b.*\bsystem\b|\bsystem\b.*\brole\b", re.IGNORECASE | re.DOTALL)
_NO_THINKING = re.compile(r"\b(?:signature|thinking)\b", re.IGNORECASE)
_WANTS_THINKING = re.compile(r"\bexpected\b\W*(?:redacted_)?thinking\b", re.IGNORECASE)


class AnthropicModel:
    """Implements ChatModel.

    `base_url` is another endpoint of the same API. `context_window` takes the place of what the
    table says, `takes_images` too. `asks_cache_misses`: the endpoint tells why a cached prefix was
    not read; None: Anthropic's own does.
    """

    def __init__(
        self,
        *,
        api_key: str,
        name: str,
        base_url: str = BASE_URL,
        timeout_seconds: float = TIMEOUT_SECONDS,
        context_window: int | None = None,
        takes_images: bool | None = None,
        asks_cache_misses: bool | None = None,
    ) -> None:
        self._api_key = api_key
        self._name = name
        self._base_url = base_url
        self._timeout_seconds = timeout_seconds
        self._context_window = context_window
        self._facts = facts_of(name)
        is_own = base_url.rstrip("/") == BASE_URL
        self._dialect = MessagesDialect(
            carries_system=bool(self._facts and self._facts.has_system_messages),
            asks_cache_misses=is_own if asks_cache_misses is None else asks_cache_misses,
            accepted=accepted_files(self._facts, DOCUMENTS, takes_images=takes_images),
        )
        self._client: Any = None

    @property
    def provider(self) -> str:
        return PROVIDER

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int:
        known = self._facts.context_window if self._facts else UNKNOWN_WINDOW
        return self._context_window or known

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one message; closing the generator closes the connection.

        What the endpoint refuses to take of the history's form is left out, and the request sent
        again.
        """
        dialect = self._dialect
        while True:
            sent = messages_request(request, dialect, self._facts)
            reply = AnthropicReply(model=request.model, prefix=sent.prefix)
            try:
                async with aclosing(self._events(sent.body)) as events:
                    async for event in events:
                        for told in reply.take(event):
                            yield told
            except ModelFailure as refusal:
                other = None if reply.has_begun else self._after(refusal, dialect, sent.body)
                if other is None:
                    raise
                dialect = other
            else:
                break
        for told in reply.finish():
            yield told

    async def model_names(self) -> tuple[str, ...]:
        """The models that the endpoint lists, sorted, at most 1,000. Raises ModelFailure."""
        sdk, transport = await _modules()
        names: set[str] = set()
        try:
            async for model in self._connected(sdk).models.list(limit=MOST_NAMES):
                names.add(cleaned(model.id))
                if len(names) == MOST_NAMES:
                    break
        except (sdk.APIError, transport.HTTPError, *UNREADABLE) as error:
            raise _failure_of(sdk, transport, error) from error
        return tuple(sorted(names))

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _events(self, body: Body) -> AsyncGenerator[Any, None]:
        sdk, transport = await _modules()
        client = self._connected(sdk)
        try:
            async with await client.messages.create(**body, stream=True) as events:
                async for event in events:
                    yield event
        except (sdk.APIError, transport.HTTPError, transport.StreamError, *UNREADABLE) as error:
            raise _failure_of(sdk, transport, error) from error

    def _after(
        self, refusal: ModelFailure, dialect: MessagesDialect, body: Body
    ) -> MessagesDialect | None:
        """What may be sent instead; None when nothing of our form was refused. That a model takes
        no system messages holds for good, what it says of thoughts for this history."""
        if refusal.kind is not FailureKind.BAD_REQUEST:
            return None
        detail = refusal.metadata.get("detail", "")
        if _NO_SYSTEM.search(detail) and has_system_messages(body):
            self._dialect = replace(self._dialect, carries_system=False)
            return replace(dialect, carries_system=False)
        if not _NO_THINKING.search(detail):
            return None
        if has_thinking(body) and not _WANTS_THINKING.search(detail):
            return replace(dialect, replays_thinking=False)
        return replace(dialect, asks_thinking=False) if "thinking" in body else None

    def _connected(self, sdk: Any) -> Any:
        if self._client is None:
            self._client = sdk.AsyncAnthropic(
                api_key=self._api_key,
                base_url=self._base_url,
                timeout=self._timeout_seconds,
                max_retries=0,
                open_telemetry=False,
            )
        return self._client


async def _modules() -> tuple[Any, Any]:
    """The SDK and the HTTP library it stands on, imported beside the loop."""
    return (
        await asyncio.to_thread(importlib.import_module, "anthropic"),
        await asyncio.to_thread(importlib.import_module, "httpx2"),
    )


def _failure_of(sdk: Any, transport: Any, error: Any) -> ModelFailure:
    """An exception of the SDK, of what it stands on, or of what cannot be read, in our words."""
    if isinstance(error, sdk.APITimeoutError | transport.TimeoutException):
        return failure(PROVIDER, FailureKind.TIMEOUT)
    if isinstance(error, UNREADABLE):
        return failure(PROVIDER, FailureKind.MALFORMED_STREAM)
    if not isinstance(error, sdk.APIStatusError):
        return failure(PROVIDER, FailureKind.CONNECTION)
    status: Any = error
    # An error event arrives inside of a stream that began well: its status says nothing.
    code = None if status.status_code < 400 else int(status.status_code)
    detail = str(status.api_message or "")
    return failure(
        PROVIDER,
        kind_of(status=code, names=(status.type, status.error_code), text=detail),
        detail=detail,
        retry_after_seconds=retry_after(status.response.headers),
    )
