"""Who may speak for whom: a choice is proven before it is kept, and never takes a turn down."""

from dataclasses import dataclass, field

import pytest

from minara_core.errors import InvalidRequest, MinaraError, NotReady, Unavailable
from minara_core.ids import SINGLE_USER, UserId
from minara_core.reasons import ErrorReason
from minara_llm.failover import Breakers
from minara_llm.model import ChatModel, FailureKind, ModelFailure
from minara_llm.providers import ProviderSettings
from minara_llm.scripted import Script, ScriptedModel, says
from minara_llm.selection import ModelSelection, RoleSettings
from minara_orchestrator.app.choose_model import ModelChooser
from support.clock import FixedClock
from support.orchestrator.storage import FakePreferences

ADA = UserId("ada")


@dataclass
class Desk:
    """A chooser over two providers, whose models are scripted by their label."""

    scripts: dict[str, list[Script]] = field(default_factory=dict[str, list[Script]])
    roles: RoleSettings = field(default_factory=RoleSettings)
    notes: list[MinaraError] = field(default_factory=list[MinaraError])

    def __post_init__(self) -> None:
        self.clock = FixedClock()
        self.breakers = Breakers()
        self.preferences = FakePreferences()
        self.chooser = ModelChooser(
            ModelSelection(
                ProviderSettings(anthropic_api_key="a", openai_api_key="b"),
                self.roles,
                wrap=self._scripted,
            ),
            self.preferences,
            self.breakers,
            self.clock,
            self.notes.append,
        )

    def _scripted(self, model: ChatModel) -> ChatModel:
        label = f"{model.provider}:{model.name}"
        return ScriptedModel(self.scripts.get(label, []), provider=model.provider, name=model.name)

    async def labels(self, user_id: UserId = ADA) -> list[str]:
        return [each.label for each in await self.chooser.candidates(user_id)]


SONNET, GPT = "anthropic:claude-sonnet-5-5", "openai:gpt-6-sol"


def refused(kind: FailureKind) -> ModelFailure:
    return ModelFailure("openai does not accept the key", kind=kind)


async def test_the_configured_models_speak_and_fixed_rules_stand_in_last() -> None:
    desk = Desk()
    assert await desk.labels() == [SONNET, GPT, "offline:offline-1"]
    candidates = await desk.chooser.candidates(ADA)
    assert [each.is_degraded for each in candidates] == [False, False, True]


async def test_without_a_provider_the_offline_model_is_no_stand_in() -> None:
    desk = Desk(roles=RoleSettings(main="offline"))
    candidates = await desk.chooser.candidates(ADA)
    assert [(each.label, each.is_degraded) for each in candidates] == [("offline:offline-1", False)]


async def test_a_choice_that_answers_speaks_first_for_its_person_alone() -> None:
    desk = Desk(scripts={GPT: [says("ok")]})
    assert str(await desk.chooser.choose(ADA, "openai")) == GPT
    assert await desk.labels() == [GPT, SONNET, "offline:offline-1"]
    assert (await desk.labels(UserId("bob")))[0] == SONNET
    assert await desk.chooser.choose(ADA, "") is None
    assert (await desk.labels())[0] == SONNET


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        (FailureKind.AUTHENTICATION, NotReady, ErrorReason.MODEL_REFUSED),
        (FailureKind.BAD_REQUEST, NotReady, ErrorReason.MODEL_REFUSED),
        (FailureKind.OVERLOADED, Unavailable, ErrorReason.MODEL_UNAVAILABLE),
        (FailureKind.TIMEOUT, Unavailable, ErrorReason.MODEL_UNAVAILABLE),
    ],
)
async def test_a_choice_that_does_not_answer_is_refused_and_the_old_one_stands(
    kind: FailureKind, error: type[MinaraError], reason: ErrorReason
) -> None:
    desk = Desk(scripts={GPT: [refused(kind)], SONNET: [says("ok")]})
    await desk.chooser.choose(ADA, SONNET)
    with pytest.raises(error) as caught:
        await desk.chooser.choose(ADA, GPT)
    assert caught.value.reason == reason
    assert desk.preferences.choices[ADA] == SONNET


@pytest.mark.parametrize("text", ["google:gemini", "xai", "openai:gpt-9-pro", "ollama"])
async def test_nobody_chooses_what_is_neither_configured_nor_listed(text: str) -> None:
    desk = Desk()
    with pytest.raises(InvalidRequest) as caught:
        await desk.chooser.choose(ADA, text)
    assert caught.value.reason == ErrorReason.MODEL_UNKNOWN


async def test_whoever_pays_alone_may_choose_any_model_of_a_configured_provider() -> None:
    desk = Desk(scripts={"openai:gpt-9-pro": [says("ok")]})
    assert str(await desk.chooser.choose(SINGLE_USER, "openai:gpt-9-pro")) == "openai:gpt-9-pro"


async def test_a_choice_whose_key_was_taken_away_is_passed_over() -> None:
    desk = Desk()
    desk.preferences.choices[ADA] = "xai:grok-4.5"
    assert (await desk.labels())[0] == SONNET
    assert await desk.chooser.chosen(ADA) is None


async def test_a_store_that_does_not_answer_costs_the_choice_and_not_the_turn() -> None:
    desk = Desk()
    desk.preferences.error = Unavailable("down", reason=ErrorReason.DATABASE_UNAVAILABLE)
    assert (await desk.labels())[0] == SONNET
    assert len(desk.notes) == 1


async def test_a_provider_left_alone_is_passed_over_and_with_all_of_them_rules_answer() -> None:
    desk = Desk()
    fail_for_good(desk, "anthropic")
    assert await desk.labels() == [GPT, "offline:offline-1"]
    fail_for_good(desk, "openai")
    candidates = await desk.chooser.candidates(ADA)
    assert [each.is_degraded for each in candidates] == [True]


async def test_cheap_work_goes_to_a_provider_that_is_not_left_alone() -> None:
    desk = Desk()
    first = desk.chooser.batch()
    assert first is not None
    assert first.name == "claude-haiku-5-5"
    fail_for_good(desk, "anthropic")
    second = desk.chooser.batch()
    assert second is not None
    assert second.name == "gpt-6-luna"
    fail_for_good(desk, "openai")
    assert desk.chooser.batch() is None


def fail_for_good(desk: Desk, provider: str) -> None:
    for _ in range(5):
        desk.breakers.of(provider).fail(refused(FailureKind.AUTHENTICATION), desk.clock.monotonic())
