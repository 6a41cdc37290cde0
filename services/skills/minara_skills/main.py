"""Composition root of the skills service: settings to objects to a Service."""

from minara.skills.v1 import skill_service_pb2_grpc as skills_grpc
from minara_core.clock import Clock
from minara_runtime.data_folder import DataFolder
from minara_runtime.database import Database
from minara_runtime.hosting import run_service
from minara_runtime.service import Service, Servicer
from minara_skills.adapters.grpc_server import SkillServicer
from minara_skills.adapters.skill_packages import builtin_skills
from minara_skills.adapters.sql_sessions import VERSIONS, SqlSkillSessions
from minara_skills.app.activate_skills import SkillActivation
from minara_skills.app.select_skills import SkillSelection
from minara_skills.domain.catalog import catalog_of
from minara_skills.domain.registry import register
from minara_skills.settings import SkillsSettings, variables_set


def build(settings: SkillsSettings, *, clock: Clock) -> Service:
    """The skills service, wired and not started. Raises SkillInvalid for a broken package."""
    database = Database.open(
        settings.skills_database_url or DataFolder(settings.data_dir).database_url("skills"),
        pool_size=settings.database_pool_size,
    )
    skills = builtin_skills()
    wanted = [variable for skill in skills for variable in skill.requires_env]
    registry = register(skills, variables=variables_set(wanted))
    sessions = SqlSkillSessions(database, clock)
    servicer = SkillServicer(
        catalog_of(registry),
        SkillSelection(registry, sessions),
        SkillActivation(registry, sessions),
    )

    async def start() -> None:
        await database.migrate(VERSIONS, owner="skills")

    return Service(
        name="skills",
        servicers=(
            Servicer(
                full_name="minara.skills.v1.SkillService",
                register=lambda server: skills_grpc.add_SkillServiceServicer_to_server(
                    servicer, server
                ),
            ),
        ),
        start=start,
        aclose=database.aclose,
        is_ready=database.answers,
        gauges=(database.gauge("skills"),),
    )


def main() -> None:
    """Run the skills service alone, until SIGTERM or SIGINT."""
    run_service(
        "skills",
        SkillsSettings,
        lambda settings, host: build(settings, clock=host.clock),
        databases=lambda settings: [settings.skills_database_url],
    )
