"""Which models answer: an ordered list for each role, from settings alone (turn.md §5)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from minara_core.errors import InvalidRequest
from minara_core.reasons import ErrorReason
from minara_llm.model import ChatModel
from minara_llm.offline.model import OFFLINE_MODEL, OFFLINE_PROVIDER
from minara_llm.providers import PROVIDERS, Closable, ProviderSettings, make_model


class ModelRole(StrEnum):
    """MAIN speaks with people; BATCH does cheap work beside it; VISION reads images."""

    MAIN = "main"
    BATCH = "batch"
    VISION = "vision"


_DEFAULTS: Mapping[ModelRole, Mapping[str, str]] = MappingProxyType(
    {
        ModelRole.MAIN: MappingProxyType(
            {
                "anthropic": "claude-sonnet-5-5",
                "openrouter": "anthropic/claude-sonnet-5.5",
                "openai": "gpt-6-sol",
                "xai": "grok-4.5",
                "ollama": "qwen3",
            }
        ),
        ModelRole.BATCH: MappingProxyType(
            {
                "anthropic": "claude-haiku-5-5",
                "openrouter": "anthropic/claude-haiku-5.5",
                "openai": "gpt-6-luna",
                "xai": "grok-4.5",
                "ollama": "qwen3",
            }
        ),
        ModelRole.VISION: MappingProxyType(
            {
                "anthropic": "claude-sonnet-5-5",
                "openrouter": "anthropic/claude-sonnet-5.5",
                "openai": "gpt-6-sol",
            }
        ),
    }
)
_NOBODY_ELSE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model of a provider; as text `provider:name`, such as `ollama:llama3.1:8b`."""

    provider: str
    name: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"


OFFLINE_CHOICE = ModelChoice(provider=OFFLINE_PROVIDER, name=OFFLINE_MODEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSettings:
    """What a person set, each a comma-separated list of `provider` or `provider:name`.

    `main` is the first model of the main role, `fallbacks` those after it ("none" for none);
    `choices` may be chosen besides.
    """

    main: str = ""
    fallbacks: str = ""
    batch: str = ""
    vision: str = ""
    choices: str = ""


def default_model(provider: str, role: ModelRole = ModelRole.MAIN) -> str:
    """The model that is asked when a provider alone is named; empty when it has none."""
    return _DEFAULTS[role].get(provider, "")


class ModelSelection:
    """The models of each role. Adapters are made once and shared; `wrap` goes around each.

    `given` is a model made elsewhere that alone speaks, with nothing beside it.

    Raises InvalidRequest (with the setting's name as `field`) for a provider that is unknown or
    has no key.
    """

    def __init__(
        self,
        providers: ProviderSettings,
        roles: RoleSettings,
        *,
        wrap: Callable[[ChatModel], ChatModel] = lambda model: model,
        given: ChatModel | None = None,
    ) -> None:
        self._providers = providers
        self._wrap = wrap
        self._adapters: dict[ModelChoice, Closable] = {}
        self._wrapped: dict[ModelChoice, ChatModel] = {}
        self._choices: tuple[ModelChoice, ...] = ()
        self.is_given = given is not None
        if given is not None:
            choice = ModelChoice(provider=given.provider, name=given.name)
            self._wrapped[choice] = wrap(given)
            self._roles = {role: () for role in ModelRole} | {ModelRole.MAIN: (choice,)}
            return
        self._roles = {
            ModelRole.MAIN: self._main(roles),
            ModelRole.BATCH: self._of_role(ModelRole.BATCH, "MINARA_BATCH_MODEL", roles.batch),
            ModelRole.VISION: self._of_role(ModelRole.VISION, "MINARA_VISION_MODEL", roles.vision),
        }
        self._choices = self._listed("MINARA_MODEL_CHOICES", roles.choices)

    def candidates(self, role: ModelRole) -> tuple[ModelChoice, ...]:
        """The role's models in the order in which they are tried; the main role's never empty."""
        return self._roles[role]

    @property
    def choices(self) -> tuple[ModelChoice, ...]:
        """What a person may choose as their main model."""
        return _distinct((*self.candidates(ModelRole.MAIN), *self._choices))

    def parse(self, text: str) -> ModelChoice:
        """Read `provider` or `provider:name`.

        Raises InvalidRequest (MODEL_UNKNOWN) for a provider that is unknown or has no key.
        """
        return self._parsed("model", text)

    def model(self, choice: ModelChoice) -> ChatModel:
        """The model itself, the same each time."""
        if choice not in self._wrapped:
            self._adapters[choice] = make_model(self._providers, choice.provider, choice.name)
            self._wrapped[choice] = self._wrap(self._adapters[choice])
        return self._wrapped[choice]

    async def names(self, provider: str) -> tuple[str, ...]:
        """The models that a provider itself lists. Raises ModelFailure."""
        choice = self._parsed("provider", provider)
        self.model(choice)
        return await self._adapters[choice].model_names()

    async def aclose(self) -> None:
        """Close the providers' connections."""
        for adapter in self._adapters.values():
            await adapter.aclose()

    def _main(self, roles: RoleSettings) -> tuple[ModelChoice, ...]:
        first = (self._parsed("MINARA_MODEL", roles.main),) if roles.main.strip() else ()
        if OFFLINE_CHOICE in first:
            return first
        if roles.fallbacks.strip().lower() == _NOBODY_ELSE:
            others = () if first else self._defaults(ModelRole.MAIN)[:1]
        elif roles.fallbacks.strip():
            head = first or self._defaults(ModelRole.MAIN)[:1]
            others = (*head, *self._listed("MINARA_MODEL_FALLBACKS", roles.fallbacks))
        else:
            # Whoever names a model wants no other one of its provider in its place.
            named = {choice.provider for choice in first}
            defaults = self._defaults(ModelRole.MAIN)
            others = tuple(each for each in defaults if each.provider not in named)
        return _distinct((*first, *others)) or (OFFLINE_CHOICE,)

    def _of_role(self, role: ModelRole, setting: str, text: str) -> tuple[ModelChoice, ...]:
        if text.strip().lower() == _NOBODY_ELSE:
            return ()
        return self._listed(setting, text) or self._defaults(role)

    def _defaults(self, role: ModelRole) -> tuple[ModelChoice, ...]:
        return tuple(
            ModelChoice(provider=provider, name=name)
            for provider, name in _DEFAULTS[role].items()
            if self._providers.key(provider)
        )

    def _listed(self, setting: str, text: str) -> tuple[ModelChoice, ...]:
        return _distinct(tuple(self._parsed(setting, part) for part in _parts(text)))

    def _parsed(self, setting: str, text: str) -> ModelChoice:
        provider, _, name = (part.strip() for part in text.partition(":"))
        provider = provider.lower()
        if provider == OFFLINE_PROVIDER:
            return OFFLINE_CHOICE
        if provider not in PROVIDERS:
            known = ", ".join((*PROVIDERS, OFFLINE_PROVIDER))
            raise _refused(
                setting,
                f"{setting}: {text.strip()[:80]!r} begins with no provider of ours ({known}); "
                "say provider or provider:model, with commas between several",
            )
        if not self._providers.is_usable(provider):
            raise _refused(setting, f"{setting}: {provider} has no key or address here")
        return ModelChoice(provider=provider, name=name or default_model(provider))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _distinct(choices: tuple[ModelChoice, ...]) -> tuple[ModelChoice, ...]:
    return tuple(dict.fromkeys(choices))


def _refused(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, reason=ErrorReason.MODEL_UNKNOWN, metadata={"field": field})
