"""Which model answers: the explicit setting, the first key, or nobody but the offline model."""

import subprocess
import sys
from typing import Any

import pytest

from minara_core.errors import InvalidRequest
from minara_llm.selection import ProviderSettings, choose

ALL: dict[str, Any] = {
    "anthropic_api_key": "a",
    "openrouter_api_key": "b",
    "openai_api_key": "c",
    "xai_api_key": "d",
    "ollama_base_url": "http://127.0.0.1:11434",
}


def chosen(**settings: Any) -> tuple[str, str]:
    model = choose(ProviderSettings(**settings))
    return model.provider, model.name


def test_without_any_key_the_offline_model_answers() -> None:
    assert chosen()[0] == "offline"
    assert chosen(model="", openai_base_url="http://127.0.0.1:1")[0] == "offline"


@pytest.mark.parametrize(
    ("first", "provider", "name"),
    [
        (0, "anthropic", "claude-sonnet-5-5"),
        (1, "openrouter", "anthropic/claude-sonnet-5.5"),
        (2, "openai", "gpt-6-sol"),
        (3, "xai", "grok-4.5"),
        (4, "ollama", "qwen3"),
    ],
)
def test_the_first_provider_with_a_key_is_taken(first: int, provider: str, name: str) -> None:
    left = dict(list(ALL.items())[first:])
    assert chosen(**left) == (provider, name)


@pytest.mark.parametrize(
    ("setting", "provider", "name"),
    [
        ("openai", "openai", "gpt-6-sol"),
        ("openai:gpt-5.4", "openai", "gpt-5.4"),
        ("Anthropic: claude-opus-5-5 ", "anthropic", "claude-opus-5-5"),
        ("ollama:llama3.1:8b", "ollama", "llama3.1:8b"),
        ("openrouter:x-ai/grok-4.5", "openrouter", "x-ai/grok-4.5"),
        ("xai:", "xai", "grok-4.5"),
    ],
)
def test_the_explicit_setting_wins(setting: str, provider: str, name: str) -> None:
    assert chosen(**ALL, model=setting) == (provider, name)


def test_the_offline_model_can_be_asked_for() -> None:
    assert chosen(**ALL, model="offline")[0] == "offline"


@pytest.mark.parametrize("setting", ["gpt-6-sol", "google:gemini", "anthropic", "ollama:qwen3"])
def test_an_explicit_provider_that_cannot_be_used_is_refused(setting: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chosen(model=setting, openai_api_key="c")
    assert caught.value.metadata["field"] == "MINARA_MODEL"


def test_a_compatible_server_needs_no_key() -> None:
    assert chosen(model="openai:local", openai_base_url="http://127.0.0.1:1") == (
        "openai",
        "local",
    )


def test_no_sdk_is_imported_before_a_model_is_asked() -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from minara_llm.selection import *;"
            "choose(ProviderSettings(anthropic_api_key='k'));"
            "choose(ProviderSettings(openai_api_key='k'));"
            "print({'anthropic', 'openai', 'httpx2'} & set(sys.modules))",
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    assert told.stdout == "set()\n"
