"""Models behind Chat Completions over the official SDK: OpenAI, xAI, OpenRouter, Ollama, others."""

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

from minara_llm.model import FailureKind, ModelEvent, ModelFailure, ModelRequest
from minara_llm.openai_reply import ChatReply
from minara_llm.openai_request import ChatDialect, chat_body
from minara_llm.prices import UNKNOWN_WINDOW, facts_of
from minara_llm.wire_errors import failure, kind_of, retry_after

CHAT_PATH = "/chat/completions"
TIMEOUT_SECONDS = 120.0
"""The longest silence of the provider, before and between chunks."""


class OpenAIModel:
    """Implements ChatModel.

    `chat_path` is appended to `base_url`. `is_native`: the server is OpenAI's own, and takes what
    others do not.
    """

    def __init__(
        self,
        *,
        provider: str,
        api_key: str,
        name: str,
        base_url: str,
        chat_path: str = CHAT_PATH,
        is_native: bool = False,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._dialect = ChatDialect(provider=provider, is_native=is_native)
        self._api_key = api_key
        self._name = name
        self._base_url = base_url
        self._chat_path = chat_path
        self._timeout_seconds = timeout_seconds
        self._facts = facts_of(name)
        self._client: Any = None

    @property
    def provider(self) -> str:
        return self._dialect.provider

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int:
        return self._facts.context_window if self._facts else UNKNOWN_WINDOW

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one message; closing the generator closes the connection."""
        sdk, chat = await _modules()
        client = self._connected(sdk)
        reply = ChatReply(provider=self.provider, model=request.model)
        try:
            async with await client.post(
                self._chat_path,
                body=chat_body(request, self._dialect, self._facts),
                cast_to=chat.ChatCompletionChunk,
                stream=True,
                stream_cls=sdk.AsyncStream[chat.ChatCompletionChunk],
            ) as chunks:
                async for chunk in chunks:
                    for told in reply.take(chunk):
                        yield told
        except sdk.APIError as error:
            raise _of_sdk(self.provider, sdk, error) from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise failure(self.provider, FailureKind.MALFORMED_STREAM) from error
        for told in reply.finish():
            yield told

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


async def _modules() -> tuple[Any, Any]:
    """The SDK and its chat types, imported beside the loop."""
    return (
        await asyncio.to_thread(importlib.import_module, "openai"),
        await asyncio.to_thread(importlib.import_module, "openai.types.chat"),
    )


def _of_sdk(provider: str, sdk: Any, error: Any) -> ModelFailure:
    if isinstance(error, sdk.APITimeoutError):
        return failure(provider, FailureKind.TIMEOUT)
    if isinstance(error, sdk.APIConnectionError):
        return failure(provider, FailureKind.CONNECTION)
    body: Any = error.body
    said = cast("dict[str, Any]", body).get("message") if isinstance(body, dict) else None
    detail = str(said or error.message or "")
    is_status = isinstance(error, sdk.APIStatusError)
    return failure(
        provider,
        kind_of(
            status=int(error.status_code) if is_status else None,
            names=(error.code, error.type),
            text=detail,
        ),
        detail=detail,
        retry_after_seconds=retry_after(error.response.headers) if is_status else None,
    )
