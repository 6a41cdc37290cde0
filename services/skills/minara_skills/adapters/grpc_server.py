"""SkillService: convert in, call, convert out."""

import grpc.aio

from minara.skills.v1 import skill_service_pb2 as skills_pb
from minara.skills.v1 import skill_service_pb2_grpc as skills_grpc
from minara_core.taxonomy import DEFAULT_CEILING_STAGE
from minara_runtime import convert_enums as enums
from minara_runtime.convert import context_from_pb
from minara_skills.app.activate_skills import SkillActivation
from minara_skills.app.select_skills import SkillSelection
from minara_skills.domain.catalog import SkillCatalog, prompt_of
from minara_skills.domain.router import Score, Selection


class SkillServicer(skills_grpc.SkillServiceServicer):
    def __init__(
        self, catalog: SkillCatalog, selection: SkillSelection, activation: SkillActivation
    ) -> None:
        self._catalog = catalog
        self._selection = selection
        self._activation = activation

    async def SelectSkills(
        self,
        request: skills_pb.SelectSkillsRequest,
        context: grpc.aio.ServicerContext[
            skills_pb.SelectSkillsRequest, skills_pb.SelectSkillsResponse
        ],
    ) -> skills_pb.SelectSkillsResponse:
        selection = await self._selection.select(
            context_from_pb(request.context),
            request.message,
            tool_names=request.tool_names,
            is_human=request.is_human_message,
            validate_only=request.validate_only,
        )
        return self._selected(selection)

    async def ActivateSkills(
        self,
        request: skills_pb.ActivateSkillsRequest,
        context: grpc.aio.ServicerContext[
            skills_pb.ActivateSkillsRequest, skills_pb.ActivateSkillsResponse
        ],
    ) -> skills_pb.ActivateSkillsResponse:
        activated = await self._activation.activate(
            context_from_pb(request.context),
            request.skill_ids,
            tool_names=request.tool_names,
            stage=enums.STAGE.from_pb_or(request.stage, DEFAULT_CEILING_STAGE),
        )
        return skills_pb.ActivateSkillsResponse(
            note=activated.note,
            callable_tools=activated.callable_tools,
            activated_skill_ids=activated.skill_ids,
            refused_skills=activated.refused,
        )

    def _selected(self, selection: Selection) -> skills_pb.SelectSkillsResponse:
        return skills_pb.SelectSkillsResponse(
            catalog_block=self._catalog.block,
            catalog_etag=self._catalog.etag,
            active_skills=[
                skills_pb.ActiveSkill(
                    skill_id=score.skill.skill_id,
                    prompt=prompt_of(score.skill),
                    reason=score.reason,
                    roles=score.skill.roles,
                )
                for score in selection.active
            ],
            stage=enums.STAGE.to_pb(selection.stage),
            is_stage_sure=selection.is_stage_sure,
            assets=selection.assets,
            callable_tools=selection.callable_tools,
            risk_ceiling=enums.TIER.to_pb(selection.risk_ceiling),
            scores=[_score_to_pb(score) for score in selection.scores],
        )


def _score_to_pb(score: Score) -> skills_pb.SkillScore:
    return skills_pb.SkillScore(
        skill_id=score.skill.skill_id,
        score_hundredths=score.hundredths,
        parts=score.parts,
        is_active=score.is_active,
        reason=score.reason,
    )
