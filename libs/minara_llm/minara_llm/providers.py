"""The providers we can ask, where each is reached, and the adapter that speaks to it."""

from dataclasses import dataclass
from typing import Protocol

from minara_llm.anthropic import BASE_URL as ANTHROPIC_URL
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ChatModel
from minara_llm.offline.model import OFFLINE_PROVIDER, OfflineModel
from minara_llm.openai import CHAT_PATH, OpenAIModel
from minara_llm.responses import ResponsesModel

PROVIDERS = ("anthropic", "openrouter", "openai", "xai", "ollama")
"""In the order in which they are tried when a person names none."""

OPENAI_URL = "https://api.openai.com/v1"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
XAI_URL = "https://api.x.ai/v1"
_NO_KEY = "none"
"""Sent where a server asks for no key but the SDK wants one."""


class Closable(ChatModel, Protocol):
    """An adapter: a chat model with connections, and a list of its siblings."""

    async def model_names(self) -> tuple[str, ...]:
        """The models that the provider lists, sorted. Raises ModelFailure."""
        ...

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """Keys and addresses. An address takes the place of the provider's own.

    `openai_api` is "responses" or "chat"; empty: responses at OpenAI's own address, else chat.
    `context_window` is what every model's window is taken for, in tokens.
    """

    anthropic_api_key: str | None = None
    openrouter_api_key: str | None = None
    openai_api_key: str | None = None
    xai_api_key: str | None = None
    ollama_base_url: str | None = None
    anthropic_base_url: str | None = None
    openrouter_base_url: str | None = None
    openai_base_url: str | None = None
    xai_base_url: str | None = None
    openai_chat_path: str | None = None
    openai_api: str = ""
    context_window: int | None = None

    def key(self, provider: str) -> str | None:
        """What makes a provider one of ours without being named; for Ollama its address."""
        match provider:
            case "anthropic":
                return self.anthropic_api_key
            case "openrouter":
                return self.openrouter_api_key
            case "openai":
                return self.openai_api_key
            case "xai":
                return self.xai_api_key
            case "ollama":
                return self.ollama_base_url
            case _:
                return None

    def is_usable(self, provider: str) -> bool:
        """Whether it can be asked when it is named: a compatible server may want no key."""
        return bool(self.key(provider) or (provider == "openai" and self.openai_base_url))


class _Offline(OfflineModel):
    """The offline model has no connections."""

    async def model_names(self) -> tuple[str, ...]:
        return (self.name,)

    async def aclose(self) -> None:
        return


def make_model(settings: ProviderSettings, provider: str, name: str) -> Closable:
    """An adapter for a provider of PROVIDERS, or the offline model."""
    key, window = settings.key(provider) or _NO_KEY, settings.context_window
    match provider:
        case "anthropic":
            return AnthropicModel(
                api_key=key,
                name=name,
                base_url=settings.anthropic_base_url or ANTHROPIC_URL,
                context_window=window,
            )
        case "openai":
            return _openai(settings, key, name)
        case "ollama":
            url = _ollama_url(settings.ollama_base_url or "")
            return OpenAIModel(
                provider=provider, api_key=_NO_KEY, name=name, base_url=url, context_window=window
            )
        case "openrouter" | "xai":
            url = settings.openrouter_base_url or OPENROUTER_URL
            if provider == "xai":
                url = settings.xai_base_url or XAI_URL
            return OpenAIModel(
                provider=provider, api_key=key, name=name, base_url=url, context_window=window
            )
        case _:
            assert provider == OFFLINE_PROVIDER
            return _Offline()


def _openai(settings: ProviderSettings, key: str, name: str) -> Closable:
    url, window = settings.openai_base_url, settings.context_window
    api = settings.openai_api or ("chat" if url or settings.openai_chat_path else "responses")
    if api == "responses":
        return ResponsesModel(
            provider="openai",
            api_key=key,
            name=name,
            base_url=url or OPENAI_URL,
            context_window=window,
        )
    return OpenAIModel(
        provider="openai",
        api_key=key,
        name=name,
        base_url=url or OPENAI_URL,
        chat_path=settings.openai_chat_path or CHAT_PATH,
        is_native=not url,
        context_window=window,
    )


def _ollama_url(address: str) -> str:
    """Ollama's own address, with the path of its compatible API."""
    bare = address.rstrip("/")
    return bare if bare.endswith("/v1") else f"{bare}/v1"
