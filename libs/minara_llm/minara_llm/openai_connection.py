"""The official OpenAI SDK, which is imported at the first call: it is heavy.

Chat Completions and Responses share it, on OpenAI's own servers and on compatible ones.
"""

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

from minara_llm.clean_text import cleaned
from minara_llm.model import FailureKind, ModelFailure
from minara_llm.wire_errors import failure, kind_of, retry_after
from minara_llm.wire_values import UNREADABLE

TIMEOUT_SECONDS = 120.0
"""The longest silence of the provider, before and between events."""

MOST_NAMES = 1_000
"""Models that are listed at most."""

Body = dict[str, Any]


class OpenAIConnection:
    """One client of one address, with the SDK's own retries off."""

    def __init__(
        self, *, provider: str, api_key: str, base_url: str, timeout_seconds: float
    ) -> None:
        self.provider = provider
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_seconds = timeout_seconds
        self._client: Any = None

    async def events(
        self, path: str, body: Body, *, event: tuple[str, str]
    ) -> AsyncGenerator[Any, None]:
        """Post a body and yield what is streamed back, as the SDK's type `event`: its module and
        name. Closing the generator closes the connection. Raises ModelFailure."""
        module, name = event
        sdk = await _imported("openai")
        kind = getattr(await _imported(module), name)
        try:
            async with await self._connected(sdk).post(
                path, body=body, cast_to=kind, stream=True, stream_cls=sdk.AsyncStream[kind]
            ) as stream:
                async for each in stream:
                    yield each
        except sdk.APIError as error:
            raise _of_sdk(self.provider, sdk, error) from error
        except UNREADABLE as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error

    async def model_names(self) -> tuple[str, ...]:
        """The models that the server lists, sorted, at most 1,000. Raises ModelFailure."""
        sdk = await _imported("openai")
        names: set[str] = set()
        try:
            async for model in self._connected(sdk).models.list():
                names.add(cleaned(model.id))
                if len(names) == MOST_NAMES:
                    break
        except sdk.APIError as error:
            raise _of_sdk(self.provider, sdk, error) from error
        except UNREADABLE as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error
        return tuple(sorted(names))

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connected(self, sdk: Any) -> Any:
        if self._client is None:
            self._client = sdk.AsyncOpenAI(
                api_key=self._api_key,
                base_url=self._base_url,
                timeout=self._timeout_seconds,
                max_retries=0,
            )
        return self._client


async def _imported(module: str) -> Any:
    return await asyncio.to_thread(importlib.import_module, module)


def _of_sdk(provider: str, sdk: Any, error: Any) -> ModelFailure:
    if isinstance(error, sdk.APITimeoutError):
        return failure(provider, FailureKind.TIMEOUT)
    if isinstance(error, sdk.APIConnectionError):
        return failure(provider, FailureKind.CONNECTION)
    said: Any = error.body
    body = cast("Body", said) if isinstance(said, dict) else {}
    detail = str(body.get("message") or error.message or "")
    is_status = isinstance(error, sdk.APIStatusError)
    return failure(
        provider,
        kind_of(
            status=int(error.status_code) if is_status else None,
            names=(error.code, error.type),
            text=f"{detail} {_upstream(body)}",
        ),
        detail=f"{detail} {_upstream(body)}".strip(),
        retry_after_seconds=retry_after(error.response.headers) if is_status else None,
    )


def _upstream(body: Body) -> str:
    """What OpenRouter's upstream said, when OpenRouter itself says only that it said something."""
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    raw = cast("Body", metadata).get("raw")
    return raw if isinstance(raw, str) else "" if raw is None else json.dumps(raw)
