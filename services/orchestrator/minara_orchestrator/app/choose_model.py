"""Which models may speak for whom: the configured ones, a person's own choice before them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from minara_core.clock import Clock
from minara_core.errors import InvalidRequest, MinaraError, NotReady, Unavailable
from minara_core.ids import SINGLE_USER, UserId
from minara_core.reasons import ErrorReason
from minara_llm.failover import Breakers
from minara_llm.model import ChatModel, FailureKind, ModelFailure
from minara_llm.offline.model import OFFLINE_PROVIDER, OfflineModel
from minara_llm.prices import facts_of
from minara_llm.probe import probe
from minara_llm.selection import OFFLINE_CHOICE, ModelChoice, ModelRole, ModelSelection
from minara_orchestrator.app.ports import ModelPreferences
from minara_orchestrator.domain.model_policy import Candidate

_REFUSALS = frozenset({FailureKind.AUTHENTICATION, FailureKind.BAD_REQUEST})


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedModel:
    """A model as people are told of it."""

    choice: ModelChoice
    context_window: int
    has_price: bool
    is_left_alone: bool


class ModelChooser:
    """Implements Models. `note` hears of preferences that could not be read: the configured models
    answer then."""

    def __init__(
        self,
        selection: ModelSelection,
        preferences: ModelPreferences,
        breakers: Breakers,
        clock: Clock,
        note: Callable[[MinaraError], None],
    ) -> None:
        self._selection = selection
        self._preferences = preferences
        self._breakers = breakers
        self._clock = clock
        self._note = note
        self._degraded = Candidate(model=OfflineModel(is_degraded=True), is_degraded=True)

    async def candidates(self, user_id: UserId) -> tuple[Candidate, ...]:
        """The person's choice, the configured models, and the offline one when none answers.

        Providers that are left alone for now are passed over.
        """
        try:
            chosen = await self.chosen(user_id)
        except MinaraError as error:
            self._note(error)
            chosen = None
        configured = self._selection.candidates(ModelRole.MAIN)
        ordered = tuple(dict.fromkeys((chosen, *configured) if chosen else configured))
        ready = [choice for choice in ordered if not self._is_left_alone(choice)]
        if self._selection.is_given or OFFLINE_CHOICE in ordered[:1]:
            return self._spoken(ordered)
        return (*self._spoken(ready), self._degraded)

    def _spoken(self, choices: Iterable[ModelChoice]) -> tuple[Candidate, ...]:
        return tuple(Candidate(model=self._selection.model(choice)) for choice in choices)

    def batch(self) -> ChatModel | None:
        """The first model of the batch role whose provider is not left alone."""
        for choice in self._selection.candidates(ModelRole.BATCH):
            if not self._is_left_alone(choice):
                return self._selection.model(choice)
        return None

    async def chosen(self, user_id: UserId) -> ModelChoice | None:
        """What the person chose and still may; None for nothing. Raises Unavailable."""
        text = await self._preferences.get(user_id)
        if not text:
            return None
        try:
            return self._allowed(user_id, text)
        except InvalidRequest:
            return None  # its key was taken away, or the operator's list has changed

    def listed(self, choices: tuple[ModelChoice, ...]) -> tuple[ListedModel, ...]:
        """These models with what is known of them."""
        return tuple(
            ListedModel(
                choice=choice,
                context_window=self._selection.model(choice).context_window,
                has_price=choice.provider == OFFLINE_PROVIDER or facts_of(choice.name) is not None,
                is_left_alone=self._is_left_alone(choice),
            )
            for choice in choices
        )

    @property
    def selection(self) -> ModelSelection:
        return self._selection

    async def choose(self, user_id: UserId, text: str) -> ModelChoice | None:
        """Ask the model for a word, then keep it as this person's; an empty text forgets.

        Raises InvalidRequest (MODEL_UNKNOWN), NotReady (MODEL_REFUSED), Unavailable
        (MODEL_UNAVAILABLE); the old choice stands then.
        """
        if not text:
            await self._preferences.set(user_id, "")
            return None
        choice = self._allowed(user_id, text)
        try:
            await probe(self._selection.model(choice))
        except ModelFailure as failure:
            raise _told(failure) from failure
        await self._preferences.set(user_id, str(choice))
        return choice

    async def provider_models(self, provider: str) -> tuple[str, ...]:
        """The models that a provider lists. Raises as `choose` does."""
        try:
            return await self._selection.names(provider)
        except ModelFailure as failure:
            raise _told(failure) from failure

    def _allowed(self, user_id: UserId, text: str) -> ModelChoice:
        choice = self._selection.parse(text)
        # Whoever runs Minara for themselves alone pays for every model; others choose from a list.
        if choice not in self._selection.choices and user_id != SINGLE_USER:
            known = ", ".join(str(each) for each in self._selection.choices)
            raise InvalidRequest(
                f"this model cannot be chosen here; there are {known}",
                reason=ErrorReason.MODEL_UNKNOWN,
                metadata={"field": "model"},
            )
        return choice

    def _is_left_alone(self, choice: ModelChoice) -> bool:
        return not self._breakers.of(choice.provider).allows(self._clock.monotonic())


def _told(failure: ModelFailure) -> MinaraError:
    detail = failure.metadata.get("detail", "")
    message = f"{failure.message}: {detail}" if detail else failure.message
    if failure.kind in _REFUSALS:
        return NotReady(message, reason=ErrorReason.MODEL_REFUSED, metadata=failure.metadata)
    return Unavailable(message, reason=ErrorReason.MODEL_UNAVAILABLE, metadata=failure.metadata)
