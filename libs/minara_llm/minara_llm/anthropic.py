"""Anthropic's models over the official SDK, which is imported at the first call: it is heavy."""

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator
from typing import Any

from minara_llm.anthropic_reply import AnthropicReply
from minara_llm.anthropic_request import PROVIDER, messages_body
from minara_llm.model import FailureKind, ModelEvent, ModelFailure, ModelRequest
from minara_llm.prices import UNKNOWN_WINDOW, facts_of
from minara_llm.wire_errors import failure, kind_of, retry_after

BASE_URL = "https://api.anthropic.com"
TIMEOUT_SECONDS = 120.0
"""The longest silence of the provider, before and between events."""


class AnthropicModel:
    """Implements ChatModel. `base_url` is another endpoint of the same API."""

    def __init__(
        self,
        *,
        api_key: str,
        name: str,
        base_url: str = BASE_URL,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._api_key = api_key
        self._name = name
        self._base_url = base_url
        self._timeout_seconds = timeout_seconds
        self._facts = facts_of(name)
        self._client: Any = None

    @property
    def provider(self) -> str:
        return PROVIDER

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int:
        return self._facts.context_window if self._facts else UNKNOWN_WINDOW

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one message; closing the generator closes the connection."""
        sdk, transport = await _modules()
        client = self._connected(sdk)
        reply = AnthropicReply(model=request.model)
        body = messages_body(request, self._facts)
        try:
            async with await client.messages.create(**body, stream=True) as events:
                async for event in events:
                    for told in reply.take(event):
                        yield told
        except sdk.APIError as error:
            raise _of_sdk(sdk, error) from error
        except transport.TimeoutException as error:
            raise failure(PROVIDER, FailureKind.TIMEOUT) from error
        except (transport.HTTPError, transport.StreamError) as error:
            raise failure(PROVIDER, FailureKind.CONNECTION) from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise failure(PROVIDER, FailureKind.MALFORMED_STREAM) from error
        for told in reply.finish():
            yield told

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

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


def _of_sdk(sdk: Any, error: Any) -> ModelFailure:
    if isinstance(error, sdk.APITimeoutError):
        return failure(PROVIDER, FailureKind.TIMEOUT)
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
