"""Which model answers: chosen once at start from settings (turn.md §5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from minara_core.errors import InvalidRequest
from minara_llm.anthropic import AnthropicModel
from minara_llm.model import ChatModel
from minara_llm.offline import OFFLINE_PROVIDER, OfflineModel
from minara_llm.openai import CHAT_PATH, OpenAIModel

DEFAULT_MODELS: Mapping[str, str] = MappingProxyType(
    {
        "anthropic": "claude-sonnet-5-5",
        "openrouter": "anthropic/claude-sonnet-5.5",
        "openai": "gpt-6-sol",
        "xai": "grok-4.5",
        "ollama": "qwen3",
    }
)
"""Each provider's model when none is named, in the order in which providers are tried."""

_OPENAI_URL = "https://api.openai.com/v1"
_OPENROUTER_URL = "https://openrouter.ai/api/v1"
_XAI_URL = "https://api.x.ai/v1"
_NO_KEY = "none"
"""Sent where a server asks for no key but the SDK wants one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """`model` is "provider" or "provider:model"; the rest are the providers' keys and addresses."""

    model: str | None = None
    anthropic_api_key: str | None = None
    openrouter_api_key: str | None = None
    openai_api_key: str | None = None
    xai_api_key: str | None = None
    ollama_base_url: str | None = None
    openai_base_url: str | None = None
    openai_chat_path: str | None = None


def choose(settings: ProviderSettings) -> ChatModel:
    """The explicit setting, else the first provider with a key, else the offline model.

    Raises InvalidRequest for an explicit provider that is unknown or has no key.
    """
    if settings.model:
        provider, _, name = settings.model.partition(":")
        return _named(settings, provider.strip().lower(), name.strip())
    for provider in DEFAULT_MODELS:
        if _key(settings, provider):
            return _model(settings, provider, DEFAULT_MODELS[provider])
    return OfflineModel()


def _named(settings: ProviderSettings, provider: str, name: str) -> ChatModel:
    if provider == OFFLINE_PROVIDER:
        return OfflineModel()
    if provider not in DEFAULT_MODELS:
        known = ", ".join((*DEFAULT_MODELS, OFFLINE_PROVIDER))
        raise _refused(f"MINARA_MODEL names no provider of ours ({known})")
    is_open = provider == "openai" and settings.openai_base_url
    if not _key(settings, provider) and not is_open:
        raise _refused(f"MINARA_MODEL wants {provider}, which has no key or address")
    return _model(settings, provider, name or DEFAULT_MODELS[provider])


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(message, metadata={"field": "MINARA_MODEL"})


def _key(settings: ProviderSettings, provider: str) -> str | None:
    """What makes a provider usable; for Ollama its address."""
    match provider:
        case "anthropic":
            return settings.anthropic_api_key
        case "openrouter":
            return settings.openrouter_api_key
        case "openai":
            return settings.openai_api_key
        case "xai":
            return settings.xai_api_key
        case _:
            return settings.ollama_base_url


def _model(settings: ProviderSettings, provider: str, name: str) -> ChatModel:
    key = _key(settings, provider) or _NO_KEY
    match provider:
        case "anthropic":
            return AnthropicModel(api_key=key, name=name)
        case "openai":
            return OpenAIModel(
                provider=provider,
                api_key=key,
                name=name,
                base_url=settings.openai_base_url or _OPENAI_URL,
                chat_path=settings.openai_chat_path or CHAT_PATH,
                is_native=not settings.openai_base_url,
            )
        case "ollama":
            return OpenAIModel(
                provider=provider, api_key=_NO_KEY, name=name, base_url=_ollama_url(key)
            )
        case _:
            url = _OPENROUTER_URL if provider == "openrouter" else _XAI_URL
            return OpenAIModel(provider=provider, api_key=key, name=name, base_url=url)


def _ollama_url(address: str) -> str:
    """Ollama's own address, with the path of its compatible API."""
    bare = address.rstrip("/")
    return bare if bare.endswith("/v1") else f"{bare}/v1"
