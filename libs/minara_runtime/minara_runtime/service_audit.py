"""What a service that keeps audit records adds to itself, in one piece."""

from collections.abc import Callable
from dataclasses import replace

import grpc.aio

from minara.audit.v1 import audit_service_pb2_grpc as audit_grpc
from minara_core.clock import Clock
from minara_core.failpoints import Failpoint, no_failpoint
from minara_core.ids import IdSource
from minara_runtime.audit_checkpoint_file import CheckpointFile, checkpoint_path
from minara_runtime.audit_checkpoints import Checkpoints
from minara_runtime.audit_servicer import AuditServicer
from minara_runtime.audit_webhook import CheckpointSender
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.keys import load_or_create
from minara_runtime.service import Job, Service, Servicer
from minara_runtime.settings import Settings


def with_audit(
    service: Service,
    settings: Settings,
    database: Database,
    *,
    clock: Clock,
    ids: IdSource,
    failpoint: Failpoint = no_failpoint,
) -> Service:
    """The service with AuditService and the jobs that make and send checkpoints of its `database`.

    Commits of that very `database` wake them. They sign with the service's key in the data folder;
    raises SettingsError when that is unusable.
    """
    folder = DataFolder(settings.data_dir)
    file = CheckpointFile(checkpoint_path(folder.path, service.name))
    sending, on_written = _sending(service.name, file, settings.audit_webhook)
    own = Database.open(database.url, durable=True, readers=1, pool_size=2)
    checkpoints = Checkpoints(
        own,
        file,
        service=service.name,
        key=load_or_create(folder.keys(service.name), service.name),
        clock=clock,
        ids=ids,
        on_written=on_written,
        failpoint=failpoint,
    )
    database.listen(checkpoints.notice)

    async def aclose() -> None:
        await service.aclose()
        await own.aclose()

    making = Job(name="audit-checkpoints", run=checkpoints.run_forever)
    return replace(
        service,
        servicers=(*service.servicers, _servicer(database, service.name)),
        jobs=(*service.jobs, making, *sending),
        aclose=aclose,
    )


def _sending(
    service: str, file: CheckpointFile, webhook: str | None
) -> tuple[tuple[Job, ...], Callable[[], None]]:
    """The job that sends what the file holds, if there is where to, and what wakes it."""
    if webhook is None:
        return (), lambda: None
    sender = CheckpointSender(file, webhook, service=service)
    return (Job(name="audit-webhook", run=sender.run_forever),), sender.notice


def _servicer(database: Database, service: str) -> Servicer:
    servicer = AuditServicer(database, service)

    def register(server: grpc.aio.Server) -> None:
        audit_grpc.add_AuditServiceServicer_to_server(servicer, server)

    return Servicer(full_name="minara.audit.v1.AuditService", register=register)
