"""ModelService: convert in, call, convert out."""

import grpc.aio

from minara.orchestrator.v1 import model_service_pb2 as model_pb
from minara.orchestrator.v1 import model_service_pb2_grpc as model_grpc
from minara_core.ids import UserId
from minara_llm.selection import ModelChoice, ModelRole
from minara_orchestrator.app.choose_model import ListedModel, ModelChooser
from minara_runtime.call_context import current_grant


class ModelServicer(model_grpc.ModelServiceServicer):
    def __init__(self, chooser: ModelChooser) -> None:
        self._chooser = chooser

    async def ListModels(
        self,
        request: model_pb.ListModelsRequest,
        context: grpc.aio.ServicerContext[model_pb.ListModelsRequest, model_pb.ListModelsResponse],
    ) -> model_pb.ListModelsResponse:
        chooser, selection = self._chooser, self._chooser.selection
        return model_pb.ListModelsResponse(
            roles=[
                model_pb.ModelRoleList(
                    role=role.value,
                    models=_models(chooser.listed(selection.candidates(role))),
                )
                for role in ModelRole
            ],
            choices=_models(chooser.listed(selection.choices)),
            chosen_model=_text(await chooser.chosen(_caller())),
            active_model=await self._active(),
        )

    async def ListProviderModels(
        self,
        request: model_pb.ListProviderModelsRequest,
        context: grpc.aio.ServicerContext[
            model_pb.ListProviderModelsRequest, model_pb.ListProviderModelsResponse
        ],
    ) -> model_pb.ListProviderModelsResponse:
        names = await self._chooser.provider_models(request.provider)
        return model_pb.ListProviderModelsResponse(names=names)

    async def ChooseModel(
        self,
        request: model_pb.ChooseModelRequest,
        context: grpc.aio.ServicerContext[
            model_pb.ChooseModelRequest, model_pb.ChooseModelResponse
        ],
    ) -> model_pb.ChooseModelResponse:
        chosen = await self._chooser.choose(_caller(), request.model)
        return model_pb.ChooseModelResponse(
            chosen_model=_text(chosen), active_model=await self._active()
        )

    async def _active(self) -> str:
        first, *_ = await self._chooser.candidates(_caller())
        return first.label


def _caller() -> UserId:
    return UserId(current_grant().subject)


def _text(choice: ModelChoice | None) -> str:
    return "" if choice is None else str(choice)


def _models(listed: tuple[ListedModel, ...]) -> list[model_pb.Model]:
    return [
        model_pb.Model(
            provider=each.choice.provider,
            name=each.choice.name,
            context_window=each.context_window,
            has_price=each.has_price,
            is_left_alone=each.is_left_alone,
        )
        for each in listed
    ]
