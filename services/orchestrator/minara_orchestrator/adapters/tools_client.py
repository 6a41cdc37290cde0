"""The tools service as the orchestrator sees it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import grpc.aio

from minara.tools.v1 import tool_service_pb2 as tools_pb
from minara.tools.v1 import tool_service_pb2_grpc as tools_grpc
from minara_core.clock import pause
from minara_core.errors import DeadlineExceeded, Unavailable
from minara_core.ids import PendingActionId, TurnId
from minara_core.taxonomy import PermissionTier, TradingState
from minara_core.turn_context import TurnContext
from minara_orchestrator.app.ports import (
    Catalog,
    Standing,
    ToolBatch,
    ToolFinished,
    ToolProgress,
)
from minara_runtime import convert_enums as enums
from minara_runtime.channels import with_grant
from minara_runtime.convert import call_to_pb, context_to_pb, definition_from_pb, result_from_pb
from minara_runtime.convert_actions import action_from_pb

LIST_SECONDS = 2.0
OPEN_SECONDS = 2.0
EXECUTE_SECONDS = 62.0
EXECUTE_TRIES = 3
RETRY_SECONDS = 0.1
LIST_TOOLS_METHOD = "minara.tools.v1.ToolService/ListTools"


class ToolsClient:
    """Implements Tools over ToolService; keeps the last catalog, since tools may be down.

    `service_grant` makes a fresh grant for ListTools, the one call that belongs to no turn.
    """

    def __init__(self, channel: grpc.aio.Channel, service_grant: Callable[[], str]) -> None:
        self._stub = tools_grpc.ToolServiceStub(channel)
        self._service_grant = service_grant
        self._catalog: Catalog | None = None
        self._is_stale = True

    async def catalog(self) -> Catalog:
        if self._catalog is not None and not self._is_stale:
            return self._catalog
        try:
            self._catalog = await self._listed()
        except (Unavailable, DeadlineExceeded):
            # A history with calls must be sent with tools: the last known ones, as long as need be.
            if self._catalog is None:
                raise
            return self._catalog
        self._is_stale = False
        return self._catalog

    async def _listed(self) -> Catalog:
        response = await self._stub.ListTools(
            tools_pb.ListToolsRequest(),
            metadata=with_grant(self._service_grant()),
            timeout=LIST_SECONDS,
        )
        return Catalog(
            definitions=tuple(definition_from_pb(d) for d in response.definitions),
            etag=response.etag,
        )

    def expire_catalog(self, etag: str) -> None:
        self._is_stale = self._catalog is None or self._catalog.etag != etag

    async def open_turn(
        self,
        context: TurnContext,
        *,
        message: str,
        decided_action_id: PendingActionId | None,
        validate_only: bool = False,
    ) -> Standing:
        response = await self._stub.OpenTurn(
            tools_pb.OpenTurnRequest(
                context=context_to_pb(context),
                message=message,
                decided_action_id=decided_action_id or "",
                validate_only=validate_only,
            ),
            timeout=OPEN_SECONDS,
        )
        return Standing(
            trading_state=enums.TRADING_STATE.from_pb_or(
                response.trading_state, TradingState.HALTED
            ),
            pending_actions=tuple(action_from_pb(a) for a in response.pending_actions),
            untold_outcomes=tuple(action_from_pb(a) for a in response.untold_outcomes),
            catalog_etag=response.catalog_etag,
            unavailable_tools=tuple(tool.name for tool in response.unavailable_tools),
            ceiling=enums.TIER.from_pb_or(response.ceiling, PermissionTier.READ_ONLY),
        )

    async def interject(self, context: TurnContext, message: str, into: TurnId) -> None:
        await self._stub.OpenTurn(
            tools_pb.OpenTurnRequest(
                context=context_to_pb(context), message=message, into_turn_id=into
            ),
            timeout=OPEN_SECONDS,
        )

    async def execute(
        self, context: TurnContext, batch: ToolBatch
    ) -> AsyncIterator[ToolProgress | ToolFinished]:
        request = tools_pb.ExecuteToolsRequest(
            context=context_to_pb(context),
            step=batch.step,
            calls=[call_to_pb(tool_call) for tool_call in batch.calls],
            stage=enums.STAGE.to_pb(batch.stage),
            callable_tools=batch.callable_tools,
            risk_ceiling=enums.TIER.to_pb(batch.risk_ceiling),
            catalog_etag=batch.catalog_etag,
        )
        told: set[str] = set()
        for tries_left in reversed(range(EXECUTE_TRIES)):
            try:
                async with aclosing(self._execute_once(request)) as updates:
                    async for update in updates:
                        if isinstance(update, ToolFinished):
                            if update.result.tool_call_id in told:
                                continue
                            told.add(update.result.tool_call_id)
                        yield update
                return
            except Unavailable:
                if not tries_left:
                    raise
            await pause(RETRY_SECONDS)

    async def _execute_once(
        self, request: tools_pb.ExecuteToolsRequest
    ) -> AsyncGenerator[ToolProgress | ToolFinished]:
        """A batch that is sent again is answered with what is recorded of it: a replica that goes
        away in the middle costs its unfinished calls at most."""
        call = self._stub.ExecuteTools(request, timeout=EXECUTE_SECONDS)
        try:
            async for update in call:
                if update.catalog_etag:
                    self.expire_catalog(update.catalog_etag)
                yield _update(update)
        finally:
            call.cancel()


def _update(update: tools_pb.ExecuteToolsResponse) -> ToolProgress | ToolFinished:
    if update.WhichOneof("update") == "progress":
        return ToolProgress(
            tool_call_id=update.progress.tool_call_id,
            message=update.progress.message,
            fraction=update.progress.fraction,
        )
    return ToolFinished(result=result_from_pb(update.result), duration_ms=update.duration_ms)
