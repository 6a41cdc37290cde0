"""Which model answers: the explicit setting, the first key, or nobody but the offline model."""

import subprocess
import sys
from typing import Any

import pytest

from minara_core.errors import InvalidRequest
from minara_core.reasons import ErrorReason
from minara_llm.providers import ProviderSettings
from minara_llm.selection import ModelRole, ModelSelection, RoleSettings

ALL: dict[str, Any] = {
    "anthropic_api_key": "a",
    "openrouter_api_key": "b",
    "openai_api_key": "c",
    "xai_api_key": "d",
    "ollama_base_url": "http://127.0.0.1:11434",
}


def selection(
    *, model: str = "", fallbacks: str = "", batch: str = "", choices: str = "", **providers: Any
) -> ModelSelection:
    roles = RoleSettings(main=model, fallbacks=fallbacks, batch=batch, choices=choices)
    return ModelSelection(ProviderSettings(**providers), roles)


def chosen(**settings: Any) -> tuple[str, str]:
    found = selection(**settings)
    model = found.model(found.candidates(ModelRole.MAIN)[0])
    return model.provider, model.name


def listed(found: ModelSelection, role: ModelRole = ModelRole.MAIN) -> list[str]:
    return [str(choice) for choice in found.candidates(role)]


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


def test_the_others_follow_the_first_in_their_order() -> None:
    assert listed(selection(**ALL, model="openai")) == [
        "openai:gpt-6-sol",
        "anthropic:claude-sonnet-5-5",
        "openrouter:anthropic/claude-sonnet-5.5",
        "xai:grok-4.5",
        "ollama:qwen3",
    ]


def test_a_model_that_is_named_is_not_replaced_by_another_of_its_provider() -> None:
    assert listed(selection(anthropic_api_key="a", model="anthropic:claude-x")) == [
        "anthropic:claude-x"
    ]


def test_fallbacks_that_are_named_are_the_only_ones() -> None:
    assert listed(selection(**ALL, fallbacks="xai, ollama:qwen3:8b,xai")) == [
        "anthropic:claude-sonnet-5-5",
        "xai:grok-4.5",
        "ollama:qwen3:8b",
    ]
    assert listed(selection(**ALL, fallbacks="none")) == ["anthropic:claude-sonnet-5-5"]
    assert listed(selection(**ALL, model="xai", fallbacks="None")) == ["xai:grok-4.5"]


def test_whoever_asks_for_the_offline_model_gets_nobody_else() -> None:
    assert listed(selection(**ALL, model="offline")) == ["offline:offline-1"]


def test_cheap_work_has_cheap_models_and_may_have_others() -> None:
    assert listed(selection(**ALL), ModelRole.BATCH)[0] == "anthropic:claude-haiku-5-5"
    assert listed(selection(**ALL, batch="openai"), ModelRole.BATCH) == ["openai:gpt-6-sol"]
    assert listed(selection(), ModelRole.BATCH) == []
    assert listed(selection(**ALL, batch="none"), ModelRole.BATCH) == []


def test_a_person_may_choose_what_is_configured_and_what_is_listed_besides() -> None:
    found = selection(anthropic_api_key="a", choices="anthropic:claude-opus-5-5")
    assert [str(choice) for choice in found.choices] == [
        "anthropic:claude-sonnet-5-5",
        "anthropic:claude-opus-5-5",
    ]


def test_a_model_is_made_once() -> None:
    found = selection(anthropic_api_key="a")
    choice = found.parse("anthropic")
    assert found.model(choice) is found.model(found.candidates(ModelRole.MAIN)[0])


def test_an_unknown_provider_is_refused_by_its_own_reason() -> None:
    with pytest.raises(InvalidRequest) as caught:
        selection(anthropic_api_key="a").parse("google:gemini")
    assert caught.value.reason == ErrorReason.MODEL_UNKNOWN


def test_the_window_that_is_set_holds_for_every_model() -> None:
    found = selection(**ALL, context_window=16_000)
    windows = {found.model(choice).context_window for choice in found.choices}
    assert windows == {16_000}


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, "ResponsesModel"),
        ({"openai_base_url": "http://127.0.0.1:1/v1"}, "OpenAIModel"),
        ({"openai_chat_path": "/chat"}, "OpenAIModel"),
        ({"openai_api": "chat"}, "OpenAIModel"),
        (
            {"openai_base_url": "http://127.0.0.1:1/v1", "openai_api": "responses"},
            "ResponsesModel",
        ),
    ],
)
def test_openai_is_asked_over_responses_and_others_over_chat(
    settings: dict[str, str], kind: str
) -> None:
    found = selection(openai_api_key="c", **settings)
    assert type(found.model(found.parse("openai"))).__name__ == kind


def test_no_sdk_is_imported_before_a_model_is_asked() -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from minara_llm.selection import *;"
            "found = ModelSelection("
            "ProviderSettings(anthropic_api_key='k', openai_api_key='k'), RoleSettings());"
            "[found.model(choice) for choice in found.choices];"
            "print({'anthropic', 'openai', 'httpx2'} & set(sys.modules))",
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    assert told.stdout == "set()\n"
