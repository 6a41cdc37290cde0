"""A whole orchestrator over fakes: builders and a runner for unit tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from minara_core.clock import Clock, SystemClock
from minara_core.events import Payload, TerminalEvent, TurnEvent
from minara_core.ids import PendingActionId, SessionId, TurnId, UserId
from minara_core.taxonomy import Origin
from minara_core.turn_context import TurnContext
from minara_llm.failover import Breakers
from minara_llm.model import ChatModel
from minara_llm.offline.model import OfflineModel
from minara_llm.scripted import Script, ScriptedModel
from minara_orchestrator.adapters.stored_turns import (
    checkpoint_from_bytes,
    checkpoint_to_bytes,
    told_by,
)
from minara_orchestrator.app.ask_model import ModelAsker
from minara_orchestrator.app.fit_prompt import PromptFitter
from minara_orchestrator.app.judge_goal import GoalJudge
from minara_orchestrator.app.local_tools import LocalTools
from minara_orchestrator.app.open_turn import TurnOpening
from minara_orchestrator.app.run_live import LiveRunner
from minara_orchestrator.app.run_step import StepRunner
from minara_orchestrator.app.run_tools import ToolRunner
from minara_orchestrator.app.run_turn import TurnRunner
from minara_orchestrator.app.stop_signal import StopSignal
from minara_orchestrator.app.subagent import SubAgentRunner
from minara_orchestrator.app.turn_hub import TurnHub
from minara_orchestrator.domain.checkpoint import Checkpoint, Interjection, Past
from minara_orchestrator.domain.estimate import TokenEstimator
from minara_orchestrator.domain.model_policy import Candidate
from minara_orchestrator.domain.turn import (
    DecidedInput,
    Limits,
    TakeOver,
    Turn,
    TurnInput,
    UserInput,
)
from minara_runtime.convert_events import event_to_pb
from support.orchestrator.goals import FakeGoals
from support.orchestrator.peers import FakeSkills, FakeTools, FakeWorkspace
from support.orchestrator.storage import FakeTurnStore, FakeWriters

T = TypeVar("T")


def a_turn(
    text: str = "hello",
    *,
    turn_id: str = "turn-1",
    session_id: str = "session-1",
    user_id: str = "local",
    decides: str = "",
) -> Turn:
    turn_input: TurnInput = UserInput(text=text)
    if decides:
        turn_input = DecidedInput(pending_action_id=PendingActionId(decides))
    return Turn(
        context=TurnContext(
            turn_id=TurnId(turn_id),
            session_id=SessionId(session_id),
            user_id=UserId(user_id),
            origin=Origin.HTTP,
            allowed_tool_sets=("read", "trade"),
            grant="grant",
        ),
        input=turn_input,
        start_time=SystemClock().now(),
    )


def encode(event: TurnEvent) -> bytes:
    """A readable stand-in for the wire form: the payload's name, and its text if it has one, or the
    messages that an end gives back."""
    given_back = getattr(event.payload, "pending_interjections", ())
    text = getattr(event.payload, "text", "|".join(given_back))
    return f"{type(event.payload).__name__}:{text}".encode()


@dataclass
class FakeLink:
    """Implements TurnLink without storage: all is durable at once. `log` has events and checkpoints
    in their order, `waits` how often the loop waited until all was durable."""

    past: Past = field(default_factory=Past)
    stop: StopSignal = field(default_factory=StopSignal)
    log: list[Payload | Checkpoint] = field(default_factory=list[Payload | Checkpoint])
    said: list[Interjection] = field(default_factory=list[Interjection])
    waits: int = 0

    @property
    def events(self) -> list[Payload]:
        return [each for each in self.log if not isinstance(each, Checkpoint)]

    @property
    def checkpoints(self) -> list[Checkpoint]:
        return [each for each in self.log if isinstance(each, Checkpoint)]

    @property
    def has_interjections(self) -> bool:
        return bool(self.said)

    def emit(self, payload: Payload) -> None:
        if isinstance(payload, TerminalEvent):
            late = tuple(each.text for each in self.take_interjections())
            payload = replace(payload, pending_interjections=late)
        if not self.past.told.knows(payload):
            self.log.append(payload)

    def keep(self, checkpoint: Checkpoint) -> None:
        self.log.append(checkpoint)

    async def stored(self) -> None:
        self.waits += 1

    async def step_stored(self, step: int) -> None:
        pass

    def take_interjections(self) -> Sequence[Interjection]:
        taken, self.said = self.said, []
        return taken

    async def close(self) -> None:
        pass


def past_of(log: Iterable[Payload | Checkpoint]) -> Past:
    """What is known of a turn of which this was stored, read back from its wire form."""
    kept: list[Checkpoint] = []
    bodies: list[bytes] = []
    for each in log:
        if isinstance(each, Checkpoint):
            kept.append(checkpoint_from_bytes(checkpoint_to_bytes(each)))
        else:
            event = TurnEvent(sequence=len(bodies) + 1, time=SystemClock().now(), payload=each)
            bodies.append(event_to_pb(event).SerializeToString())
    return Past(is_taken_over=True, checkpoints=tuple(kept), told=told_by(bodies))


@dataclass
class House:
    """One orchestrator. `play` runs a turn directly; `hub` runs it with storage."""

    scripts: Iterable[Script]
    limits: Limits = field(default_factory=Limits)
    workspace: FakeWorkspace = field(default_factory=FakeWorkspace)
    skills: FakeSkills = field(default_factory=FakeSkills)
    tools: FakeTools = field(default_factory=FakeTools)
    store: FakeTurnStore = field(default_factory=FakeTurnStore)
    goals: FakeGoals = field(default_factory=FakeGoals)
    bugs: list[BaseException] = field(default_factory=list[BaseException])
    speakers: Sequence[ChatModel] = ()
    others: Sequence[ChatModel] = ()
    is_degradable: bool = False
    context_window: int = 200_000
    clock: Clock = field(default_factory=SystemClock)
    judge: ChatModel | None = None
    take_over: TakeOver = TakeOver.RESUME

    def __post_init__(self) -> None:
        self.model = ScriptedModel(self.scripts, context_window=self.context_window)
        self.breakers = Breakers()
        clock = self.clock
        self.waits: list[float] = []
        fitter = PromptFitter(lambda: None, TokenEstimator())
        asker = ModelAsker(fitter, self.breakers, clock, wait=self._wait)
        local = LocalTools(self.skills, SubAgentRunner(asker, self.tools, self.skills, clock))
        self.runner = TurnRunner(
            opening=TurnOpening(self.workspace, self.skills, self.tools, self, self.goals),
            steps=StepRunner(asker, ToolRunner(self.tools, local)),
            workspace=self.workspace,
            tools=self.tools,
            judge=GoalJudge(self.goals, lambda: self.judge, self.bugs.append),
            limits=self.limits,
            clock=clock,
            owner="me",
            report_bug=self._report,
        )
        self.writers = FakeWriters()
        self.hub = TurnHub(
            store=self.store,
            events=self.store,
            runner=LiveRunner(
                store=self.store,
                writers=self.writers,
                loop=self.runner,
                workspace=self.workspace,
            ),
            encode=encode,
            clock=clock,
            report_bug=self.bugs.append,
            take_over=self.take_over,
        )

    async def candidates(self, user_id: UserId) -> tuple[Candidate, ...]:
        """The `speakers`, else the scripted model and the `others`; then the offline one if it may
        stand in."""
        models = self.speakers or (self.model, *self.others)
        spoken = tuple(Candidate(model=model) for model in models)
        last = Candidate(model=OfflineModel(is_degraded=True), is_degraded=True)
        return (*spoken, last) if self.is_degradable else spoken

    async def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)

    def _report(self, error: Exception, turn: Turn) -> str:
        self.bugs.append(error)
        return "ref-1"

    async def play(self, turn: Turn, link: "FakeLink | None" = None) -> list[Payload]:
        """Run a turn to its end, without storage; its events in order."""
        link = link or FakeLink()
        await self.runner.run(turn, link)
        return link.events

    async def stream(self, turn: Turn, after: int = 0) -> list[str]:
        """Run a turn through the hub and watch it to the end."""
        await self.hub.start(turn)
        return await self.watch(turn, after)

    async def watch(self, turn: Turn, after: int = 0) -> list[str]:
        context = turn.context
        return [
            event.body.decode()
            async for batch in self.hub.follow(context.turn_id, context.user_id, after)
            for event in batch
        ]


def of_type(events: Iterable[object], kind: type[T]) -> list[T]:
    """The events of one kind, in order."""
    return [event for event in events if isinstance(event, kind)]
