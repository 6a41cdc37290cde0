"""Composition root of the workspace: settings to objects to a Service."""

from minara.workspace.v1 import context_service_pb2_grpc as context_grpc
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.clock import Clock
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import SINGLE_USER, IdSource, UserId
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.hosting import run_service
from minara_runtime.logging import get_logger
from minara_runtime.service import Job, Service, Servicer
from minara_runtime.service_audit import with_audit
from minara_workspace.adapters.commit_tokens import SealedTokens
from minara_workspace.adapters.documents_dir import DocumentFolders
from minara_workspace.adapters.grpc_server import ContextServicer, SessionServicer
from minara_workspace.adapters.observed_commits import observe_turn
from minara_workspace.adapters.sql_sessions import VERSIONS, SqlSessions
from minara_workspace.app.commit_turn import TurnCommit
from minara_workspace.app.heartbeats import Heartbeats
from minara_workspace.app.keep_sessions import SessionKeeper
from minara_workspace.app.prepare_turn import TurnPreparation
from minara_workspace.settings import WorkspaceSettings


def build(
    settings: WorkspaceSettings,
    *,
    clock: Clock,
    ids: IdSource,
    failpoint: Failpoint = no_failpoint,
) -> Service:
    """The workspace, wired and not started."""
    folder = DataFolder(settings.data_dir)
    database = Database.open(
        settings.workspace_database_url or folder.database_url("workspace"),
        pool_size=settings.database_pool_size,
    )
    sessions = SqlSessions(database)
    documents = DocumentFolders(
        settings.workspace_dir or settings.data_dir / "workspace",
        settings.data_dir / "workspaces",
        ids,
    )
    tokens = SealedTokens(database)
    heartbeats = _heartbeats(settings, database, documents, sessions)
    context = ContextServicer(
        TurnPreparation(sessions, documents, tokens),
        TurnCommit(
            sessions=sessions,
            documents=documents,
            tokens=tokens,
            heartbeats=heartbeats,
            clock=clock,
            observe=observe_turn,
            failpoint=failpoint,
        ),
    )
    session = SessionServicer(SessionKeeper(sessions, documents, clock))

    async def start() -> None:
        await database.migrate(VERSIONS, owner="workspace")
        await tokens.load_key()
        await documents.seed(SINGLE_USER)

    async def aclose() -> None:
        await heartbeats.write_waiting()
        await database.aclose()

    service = Service(
        name="workspace",
        servicers=_servicers(context, session),
        start=start,
        aclose=aclose,
        is_ready=database.answers,
        gauges=(database.gauge("workspace"),),
        jobs=(Job(name="write-heartbeats", run=heartbeats.write_forever),),
    )
    return with_audit(service, settings, database, clock=clock, ids=ids, failpoint=failpoint)


def _heartbeats(
    settings: WorkspaceSettings,
    database: Database,
    documents: DocumentFolders,
    sessions: SqlSessions,
) -> Heartbeats:
    log = get_logger("workspace/heartbeat")

    def report(user_id: UserId, error: OSError) -> None:
        log.error("heartbeat_not_written", user_id=user_id, exc_info=error)

    return Heartbeats(
        documents,
        sessions,
        is_enabled=settings.heartbeat_enabled,
        is_shared=database.dialect == "postgresql",
        report=report,
    )


def _servicers(context: ContextServicer, session: SessionServicer) -> tuple[Servicer, ...]:
    return (
        Servicer(
            full_name="minara.workspace.v1.ContextService",
            register=lambda server: context_grpc.add_ContextServiceServicer_to_server(
                context, server
            ),
        ),
        Servicer(
            full_name="minara.workspace.v1.SessionService",
            register=lambda server: session_grpc.add_SessionServiceServicer_to_server(
                session, server
            ),
        ),
    )


def main() -> None:
    """Run the workspace alone, until SIGTERM or SIGINT."""
    run_service(
        "workspace",
        WorkspaceSettings,
        lambda settings, host: build(settings, clock=host.clock, ids=host.ids),
        databases=lambda settings: [settings.workspace_database_url],
    )
