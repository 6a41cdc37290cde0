"""The skills service as the orchestrator sees it."""

from collections.abc import Sequence

import grpc.aio

from minara.skills.v1 import skill_service_pb2 as skills_pb
from minara.skills.v1 import skill_service_pb2_grpc as skills_grpc
from minara_core.taxonomy import DEFAULT_CEILING_STAGE, LifecycleStage, PermissionTier
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.ports import Activation, Catalog, Selection, SkillPrompt
from minara_runtime import convert_enums as enums
from minara_runtime.convert import context_to_pb

SELECT_SECONDS = 4.0


class SkillsClient:
    """Implements Skills over SkillService."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = skills_grpc.SkillServiceStub(channel)

    async def select(
        self,
        context: TurnContext,
        message: str,
        *,
        catalog: Catalog,
        is_human_message: bool,
        validate_only: bool = False,
    ) -> Selection:
        response = await self._stub.SelectSkills(
            skills_pb.SelectSkillsRequest(
                context=context_to_pb(context),
                message=message,
                tool_names=_names(catalog),
                tools_etag=catalog.etag,
                validate_only=validate_only,
                is_human_message=is_human_message,
            ),
            timeout=SELECT_SECONDS,
        )
        return Selection(
            catalog_block=response.catalog_block,
            skills=tuple(
                SkillPrompt(skill_id=skill.skill_id, prompt=skill.prompt, reason=skill.reason)
                for skill in response.active_skills
            ),
            playbook_block=response.playbook_block,
            scenario_ids=tuple(response.scenario_ids),
            stage=enums.STAGE.from_pb_or(response.stage, DEFAULT_CEILING_STAGE),
            callable_tools=tuple(response.callable_tools),
            risk_ceiling=enums.TIER.from_pb_or(response.risk_ceiling, PermissionTier.READ_ONLY),
        )

    async def activate(
        self,
        context: TurnContext,
        skill_ids: Sequence[str],
        *,
        catalog: Catalog,
        stage: LifecycleStage,
    ) -> Activation:
        response = await self._stub.ActivateSkills(
            skills_pb.ActivateSkillsRequest(
                context=context_to_pb(context),
                skill_ids=skill_ids,
                tool_names=_names(catalog),
                stage=enums.STAGE.to_pb(stage),
            ),
            timeout=SELECT_SECONDS,
        )
        return Activation(
            note=response.note,
            callable_tools=tuple(response.callable_tools),
            activated_skill_ids=tuple(response.activated_skill_ids),
        )


def _names(catalog: Catalog) -> list[str]:
    return [definition.name for definition in catalog.definitions]
