"""Composition root of the orchestrator: settings to objects to a Service."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import grpc.aio

from minara.orchestrator.v1 import agent_service_pb2_grpc as agent_grpc
from minara.orchestrator.v1 import goal_service_pb2_grpc as goal_grpc
from minara.orchestrator.v1 import model_service_pb2_grpc as model_grpc
from minara.skills.v1 import skill_service_pb2 as skills_pb
from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.workspace.v1 import context_service_pb2 as context_pb
from minara_core.clock import Clock
from minara_core.errors import InvalidRequest
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import IdSource
from minara_llm.failover import Breakers
from minara_llm.model import ChatModel
from minara_llm.offline.model import OFFLINE_PROVIDER
from minara_llm.prices import facts_of
from minara_llm.selection import ModelRole, ModelSelection
from minara_orchestrator.adapters.bug_reports import BugReports
from minara_orchestrator.adapters.grpc_server import AgentServicer, encode_event
from minara_orchestrator.adapters.grpc_server_goals import GoalServicer
from minara_orchestrator.adapters.grpc_server_models import ModelServicer
from minara_orchestrator.adapters.observed_turns import ObservedLoop
from minara_orchestrator.adapters.session_writers import LeasedWriters
from minara_orchestrator.adapters.skills_client import SkillsClient
from minara_orchestrator.adapters.sql_goals import SqlGoals
from minara_orchestrator.adapters.sql_model_preferences import SqlModelPreferences
from minara_orchestrator.adapters.sql_turn_events import SqlTurnEvents
from minara_orchestrator.adapters.sql_turns import VERSIONS, SqlTurns
from minara_orchestrator.adapters.tools_client import LIST_TOOLS_METHOD, ToolsClient
from minara_orchestrator.adapters.traced_model import TracedModel
from minara_orchestrator.adapters.workspace_client import WorkspaceClient
from minara_orchestrator.app.ask_model import ModelAsker
from minara_orchestrator.app.choose_model import ModelChooser
from minara_orchestrator.app.expire_events import EventExpiry
from minara_orchestrator.app.fit_prompt import PromptFitter
from minara_orchestrator.app.judge_goal import GoalJudge
from minara_orchestrator.app.keep_goals import GoalKeeper
from minara_orchestrator.app.local_tools import LocalTools
from minara_orchestrator.app.open_turn import TurnOpening
from minara_orchestrator.app.render_prompt import PromptRenderer
from minara_orchestrator.app.run_live import LiveRunner
from minara_orchestrator.app.run_step import StepRunner
from minara_orchestrator.app.run_tools import ToolRunner
from minara_orchestrator.app.run_turn import TurnRunner
from minara_orchestrator.app.subagent import SubAgentRunner
from minara_orchestrator.app.turn_hub import TurnHub
from minara_orchestrator.domain.estimate import TokenEstimator
from minara_orchestrator.settings import OrchestratorSettings
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.figures import Gauge
from minara_runtime.grants import GrantSigner
from minara_runtime.hosting import run_service
from minara_runtime.process_lease import ProcessLease
from minara_runtime.service import Job, Service, Servicer
from minara_runtime.settings import SettingsError
from minara_runtime.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    workspace: grpc.aio.Channel
    skills: grpc.aio.Channel
    tools: grpc.aio.Channel


def describe(settings: OrchestratorSettings, model: ChatModel | None = None) -> tuple[str, ...]:
    """For people: which models answer, and which of them no dollar limit binds.

    Raises SettingsError for models that cannot be asked.
    """
    selection = _selection(settings, model)
    first, *others = selection.candidates(ModelRole.MAIN)
    if first.provider == OFFLINE_PROVIDER:
        return ("model: offline (demo: templates, no language model; set a provider's key)",)
    then = f"; then {', '.join(str(each) for each in others)}" if others else ""
    unpriced = [str(each) for each in (first, *others) if facts_of(each.name) is None]
    note = f"no price is known of {', '.join(unpriced)}: dollar limits do not bind there"
    return (f"model: {first.name} ({first.provider}){then}", *([note] if unpriced else []))


def _selection(
    settings: OrchestratorSettings,
    model: ChatModel | None,
    wrap: Callable[[ChatModel], ChatModel] = lambda model: model,
) -> ModelSelection:
    try:
        return ModelSelection(settings.providers, settings.roles, wrap=wrap, given=model)
    except InvalidRequest as error:
        raise SettingsError(error.message, metadata=error.metadata) from error


def build(
    settings: OrchestratorSettings,
    peers: Peers,
    *,
    signer: GrantSigner,
    model: ChatModel | None = None,
    telemetry: Telemetry,
    clock: Clock,
    ids: IdSource,
    failpoint: Failpoint = no_failpoint,
) -> Service:
    """The orchestrator, wired and not started.

    `signer` signs with its own service key; `model` takes the place of the one settings choose.
    """
    database = Database.open(
        settings.orchestrator_database_url
        or DataFolder(settings.data_dir).database_url("orchestrator"),
        pool_size=settings.database_pool_size,
    )
    tools = ToolsClient(
        peers.tools, lambda: signer.service(service="orchestrator", methods=[LIST_TOOLS_METHOD])
    )
    skills = SkillsClient(peers.skills)
    workspace = WorkspaceClient(peers.workspace)
    bugs = BugReports(ids)
    selection = _selection(settings, model, lambda each: TracedModel(each, telemetry))
    speakers = _speakers(selection, database, clock, bugs)
    goals = _standing_goals(database, speakers.chooser, bugs)
    opening = TurnOpening(workspace, skills, tools, speakers.chooser, goals.stored)
    owner = ids.new()
    store = _Store.of(database, owner=owner, clock=clock)
    runner = TurnRunner(
        opening=opening,
        steps=_steps(speakers.asker, tools, skills, clock),
        workspace=workspace,
        tools=tools,
        judge=goals.judge,
        limits=settings.limits,
        clock=clock,
        owner=owner,
        report_bug=bugs.of_turn,
        failpoint=failpoint,
    )
    loop = ObservedLoop(runner, telemetry)
    hub = TurnHub(
        store=store.turns,
        events=store.events,
        runner=LiveRunner(store=store.turns, writers=store.writers, loop=loop, workspace=workspace),
        encode=encode_event,
        clock=clock,
        report_bug=bugs.of_task,
        take_over=settings.take_over,
    )
    agent = AgentServicer(hub, goals.keeper, PromptRenderer(opening), clock, telemetry.metrics)
    servicers = _servicers(agent, speakers, goals)
    gauges = (database.gauge("orchestrator"), loop.queue(lambda: hub.live_count))
    retention = timedelta(days=settings.event_retention_days)
    expiry = EventExpiry(store.events, clock, retention=retention)
    return _service(servicers, hub, store, expiry, selection, database, gauges)


def _steps(asker: ModelAsker, tools: ToolsClient, skills: SkillsClient, clock: Clock) -> StepRunner:
    sub_agents = SubAgentRunner(asker, tools, skills, clock)
    return StepRunner(asker, ToolRunner(tools, LocalTools(skills, sub_agents)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """Turns as they are stored, and the leases of this process."""

    turns: SqlTurns
    events: SqlTurnEvents
    writers: LeasedWriters
    lease: ProcessLease

    @classmethod
    def of(cls, database: Database, *, owner: str, clock: Clock) -> Self:
        writers = LeasedWriters(database, owner=owner)
        return cls(
            turns=SqlTurns(database, owner=owner, writers=writers),
            events=SqlTurnEvents(database, owner=owner, clock=clock, writers=writers),
            writers=writers,
            lease=ProcessLease(database, owner=owner),
        )


def _service(
    servicers: tuple[Servicer, ...],
    hub: TurnHub,
    store: _Store,
    expiry: EventExpiry,
    selection: ModelSelection,
    database: Database,
    gauges: tuple[Gauge, ...],
) -> Service:
    async def start() -> None:
        await database.migrate(VERSIONS, owner="orchestrator")
        await store.lease.begin()

    async def aclose() -> None:
        await hub.aclose()
        await store.events.aclose()
        await selection.aclose()
        await store.lease.end()
        await database.aclose()

    return Service(
        name="orchestrator",
        servicers=servicers,
        start=start,
        aclose=aclose,
        is_ready=database.answers,
        drain=hub.drain,
        gauges=gauges,
        jobs=(
            Job(name="stay-alive", run=store.lease.stay_alive),
            Job(name="recover-turns", run=hub.recover_forever),
            Job(name="steer-turns", run=hub.steer_forever),
            Job(name="hear-of-events", run=store.events.listen_forever),
            Job(name="hear-of-requests", run=store.turns.listen_forever),
            Job(name="expire-events", run=expiry.expire_forever),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Speakers:
    chooser: ModelChooser
    asker: ModelAsker


def _speakers(
    selection: ModelSelection, database: Database, clock: Clock, bugs: BugReports
) -> _Speakers:
    breakers = Breakers()
    preferences = SqlModelPreferences(database)
    chooser = ModelChooser(selection, preferences, breakers, clock, bugs.of_preferences)
    fitter = PromptFitter(chooser.batch, TokenEstimator())
    return _Speakers(chooser=chooser, asker=ModelAsker(fitter, breakers, clock))


@dataclass(frozen=True, slots=True, kw_only=True)
class _StandingGoals:
    stored: SqlGoals
    keeper: GoalKeeper
    judge: GoalJudge


def _standing_goals(database: Database, chooser: ModelChooser, bugs: BugReports) -> _StandingGoals:
    stored = SqlGoals(database)
    has_model = bool(chooser.selection.candidates(ModelRole.BATCH))
    return _StandingGoals(
        stored=stored,
        keeper=GoalKeeper(stored),
        judge=GoalJudge(stored, chooser.batch, bugs.of_task, has_model=has_model),
    )


def _servicers(
    agent: AgentServicer, speakers: _Speakers, goals: _StandingGoals
) -> tuple[Servicer, ...]:
    models, standing = ModelServicer(speakers.chooser), GoalServicer(goals.keeper)
    return (
        Servicer(
            full_name="minara.orchestrator.v1.AgentService",
            register=lambda server: agent_grpc.add_AgentServiceServicer_to_server(agent, server),
        ),
        Servicer(
            full_name="minara.orchestrator.v1.ModelService",
            register=lambda server: model_grpc.add_ModelServiceServicer_to_server(models, server),
        ),
        Servicer(
            full_name="minara.orchestrator.v1.GoalService",
            register=lambda server: goal_grpc.add_GoalServiceServicer_to_server(standing, server),
        ),
    )


def main() -> None:
    """Run the orchestrator alone, over TCP to its peers, until SIGTERM or SIGINT."""
    run_service(
        "orchestrator",
        OrchestratorSettings,
        lambda settings, host: build(
            settings,
            Peers(
                workspace=host.connect("workspace", [context_pb.DESCRIPTOR]),
                skills=host.connect("skills", [skills_pb.DESCRIPTOR]),
                tools=host.connect("tools", [tools_pb.DESCRIPTOR]),
            ),
            signer=host.signer,
            telemetry=host.telemetry,
            clock=host.clock,
            ids=host.ids,
        ),
        databases=lambda settings: [settings.orchestrator_database_url],
    )
