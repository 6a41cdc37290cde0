"""OpenAI's models behind the Responses API, over the official SDK."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from types import MappingProxyType

from minara_llm.model import FailureKind, ModelEvent, ModelFailure, ModelRequest
from minara_llm.openai_connection import TIMEOUT_SECONDS, OpenAIConnection
from minara_llm.prices import UNKNOWN_WINDOW, facts_of
from minara_llm.responses_reply import ResponsesReply
from minara_llm.responses_request import (
    DOCUMENTS,
    Body,
    ResponsesDialect,
    forms_of,
    responses_body,
)
from minara_llm.sent_files import accepted_files

_PATH = "/responses"
_EVENT = ("openai.types.responses", "ResponseStreamEvent")

_REFUSALS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        # A thought of another account or of long ago, which is known no more.
        "replays_reasoning": re.compile(
            r"could not be verified|without its required|items are not persisted", re.IGNORECASE
        ),
        # Models that do not reason, and accounts that may not see how they do.
        "asks_encrypted": re.compile(r"encrypted[ _]content|'include", re.IGNORECASE),
        "asks_summaries": re.compile(r"reasoning[. ]summar|'reasoning'", re.IGNORECASE),
        "restricts_tools": re.compile(r"allowed_tools|tool_choice", re.IGNORECASE),
    }
)
"""The words in which servers refuse what of our form, by the field of ResponsesDialect."""


class ResponsesModel:
    """Implements ChatModel. `context_window` and `takes_images` take the place of what the table
    says."""

    def __init__(
        self,
        *,
        provider: str,
        api_key: str,
        name: str,
        base_url: str,
        timeout_seconds: float = TIMEOUT_SECONDS,
        context_window: int | None = None,
        takes_images: bool | None = None,
    ) -> None:
        self._name = name
        self._context_window = context_window
        self._facts = facts_of(name)
        self._dialect = ResponsesDialect(
            provider=provider,
            accepted=accepted_files(self._facts, DOCUMENTS, takes_images=takes_images),
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
        """Stream one message; closing the generator closes the connection.

        What the server refuses of the request's form is left out, and the request sent again.
        """
        dialect = self._dialect
        while True:
            reply = ResponsesReply(provider=self.provider, model=request.model)
            body = responses_body(request, dialect, self._facts)
            try:
                async with aclosing(self._connection.events(_PATH, body, event=_EVENT)) as events:
                    async for event in events:
                        for told in reply.take(event):
                            yield told
            except ModelFailure as refusal:
                other = None if reply.has_begun else self._after(refusal, dialect, body)
                if other is None:
                    raise
                dialect = other
            else:
                break
        for told in reply.finish():
            yield told

    async def model_names(self) -> tuple[str, ...]:
        """The models that the server lists, sorted, at most 1,000. Raises ModelFailure."""
        return await self._connection.model_names()

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self._connection.aclose()

    def _after(
        self, refusal: ModelFailure, dialect: ResponsesDialect, body: Body
    ) -> ResponsesDialect | None:
        """What may be sent instead; None when nothing of our form was refused. It holds for good,
        but for reasoning: that is a matter of one history."""
        if refusal.kind is not FailureKind.BAD_REQUEST:
            return None
        detail = refusal.metadata.get("detail", "")
        for name in forms_of(body):
            if _REFUSALS[name].search(detail):
                if name != "replays_reasoning":
                    self._dialect = replace(self._dialect, **{name: False})
                return replace(dialect, **{name: False})
        return None
