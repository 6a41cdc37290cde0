"""Models behind Chat Completions over the official SDK: OpenAI, xAI, OpenRouter, Ollama, others."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from minara_llm.model import ModelEvent, ModelRequest
from minara_llm.openai_connection import TIMEOUT_SECONDS, OpenAIConnection
from minara_llm.openai_reply import ChatReply
from minara_llm.openai_request import DOCUMENTS, ChatDialect, chat_body
from minara_llm.prices import UNKNOWN_WINDOW, facts_of
from minara_llm.sent_files import accepted_files

CHAT_PATH = "/chat/completions"
_CHUNK = ("openai.types.chat", "ChatCompletionChunk")


class OpenAIModel:
    """Implements ChatModel.

    `chat_path` is appended to `base_url`. `is_native`: the server is OpenAI's own, and takes what
    others do not. `context_window` and `takes_images` take the place of what the table says.
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
        context_window: int | None = None,
        takes_images: bool | None = None,
    ) -> None:
        self._name = name
        self._chat_path = chat_path
        self._context_window = context_window
        self._facts = facts_of(name)
        documents = DOCUMENTS if is_native else frozenset[str]()
        self._dialect = ChatDialect(
            provider=provider,
            is_native=is_native,
            accepted=accepted_files(self._facts, documents, takes_images=takes_images),
        )
        self._connection = OpenAIConnection(
            provider=provider, api_key=api_key, base_url=base_url, timeout_seconds=timeout_seconds
        )

    @property
    def provider(self) -> str:
        return self._dialect.provider

    @property
    def name(self) -> str:
        return self._name

    @property
    def context_window(self) -> int:
        known = self._facts.context_window if self._facts else UNKNOWN_WINDOW
        return self._context_window or known

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream one message; closing the generator closes the connection."""
        reply = ChatReply(provider=self.provider, model=request.model)
        body = chat_body(request, self._dialect, self._facts)
        events = self._connection.events(self._chat_path, body, event=_CHUNK)
        async with aclosing(events) as chunks:
            async for chunk in chunks:
                for told in reply.take(chunk):
                    yield told
        for told in reply.finish():
            yield told

    async def model_names(self) -> tuple[str, ...]:
        """The models that the server lists, sorted, at most 1,000. Raises ModelFailure."""
        return await self._connection.model_names()

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self._connection.aclose()
