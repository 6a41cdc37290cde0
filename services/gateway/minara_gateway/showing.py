"""Showing a person what waits and what came of it: what is shown is remembered, and only that can
be decided."""

from minara.agent.v1 import event_pb2 as event_pb
from minara.agent.v1 import pending_action_pb2 as action_pb
from minara.agent.v1 import tool_call_pb2 as call_pb
from minara_core.actions import ActionState, PendingAction
from minara_core.errors import NotFound
from minara_core.tooling import ok
from minara_gateway.confirmation import Confirmations
from minara_gateway.rendering import render_end, render_missing, render_preview, render_receipt
from minara_gateway.store import Caller, GatewayStore
from minara_runtime.convert_actions import action_to_pb
from minara_runtime.logging import get_logger

_SAYS_NOTHING = frozenset(
    {"approval_requested", "usage_reported", "turn_completed", "turn_failed", "turn_cancelled"}
)
"""What may follow a preview without speaking to the person."""


class Showing:
    """What one watcher of a turn is shown of it, event by event, in their language."""

    def __init__(
        self, confirmations: Confirmations, store: GatewayStore, caller: Caller, *, language: str
    ) -> None:
        self._confirmations = confirmations
        self._store = store
        self._caller = caller
        self._language = language
        self._previews: list[PendingAction] = []
        self._log = get_logger("gateway/showing")

    async def show(self, event: event_pb.TurnEvent) -> None:
        """Replace whatever the orchestrator says about an action by what tools has stored.

        A preview stands last until something else speaks, which takes its word back.
        """
        name = event.WhichOneof("event")
        if name not in _SAYS_NOTHING:
            while self._previews:
                await self._store.take_back_last_word(self._previews.pop())
        match name:
            case "approval_requested":
                await self._show_preview(event.approval_requested)
            case "action_decided":
                await self._show_receipt(event.action_decided)
            case "turn_completed" if event.turn_completed.limit:
                completed = event.turn_completed
                completed.rendered_end = render_end(completed.limit, language=self._language)
            case "tool_call_finished":
                _hide_preview(event.tool_call_finished.result)
            case _:
                pass

    async def _show_preview(self, event: event_pb.ApprovalRequested) -> None:
        action = await self._stored(event.action)
        event.Clear()
        if action is None:
            event.rendered_preview = render_missing(self._language)
            return
        event.rendered_preview = await preview_of(
            self._confirmations, self._store, action, language=self._language, is_last_word=True
        )
        event.action.CopyFrom(action_to_pb(action))
        self._previews.append(action)

    async def _show_receipt(self, event: event_pb.ActionDecided) -> None:
        action = await self._stored(event.action)
        decision = event.decision
        event.Clear()
        if action is None:
            event.rendered_receipt = render_missing(self._language)
            return
        event.action.CopyFrom(action_to_pb(action))
        event.decision = decision
        event.rendered_receipt = await receipt_of(
            self._confirmations, self._store, self._caller, action, language=self._language
        )

    async def _stored(self, claimed: action_pb.PendingAction) -> PendingAction | None:
        try:
            return await self._confirmations.find(self._caller, claimed.pending_action_id)
        except NotFound:
            self._log.error("action_not_stored", pending_action_id=claimed.pending_action_id)
            return None


def _hide_preview(result: call_pb.ToolResult) -> None:
    """A call that parked an action tells its id alone; the preview comes from tools itself."""
    if result.WhichOneof("outcome") != "pending_action":
        return
    action_id = result.pending_action.pending_action_id
    result.pending_action.Clear()
    result.pending_action.pending_action_id = action_id
    result.envelope = ok({"state": "pending_confirmation", "pending_action_id": action_id})


async def preview_of(
    confirmations: Confirmations,
    store: GatewayStore,
    action: PendingAction,
    *,
    language: str,
    is_last_word: bool = False,
) -> str:
    """The rendered preview with its code, remembered as shown before it is delivered."""
    await store.record_shown(action, is_last_word=is_last_word)
    return render_preview(action, code=confirmations.code(action), language=language)


async def receipt_of(
    confirmations: Confirmations,
    store: GatewayStore,
    caller: Caller,
    action: PendingAction,
    *,
    language: str,
) -> str:
    """The rendered receipt; where a moved price voided the action, with the preview that took its
    place, as long as that waits."""
    replaced_by = action.outcome.replaced_by if action.outcome else ""
    replacement = ""
    if replaced_by:
        try:
            new = await confirmations.find(caller, replaced_by)
        except NotFound:
            new = None
        if new is not None and new.state is ActionState.PENDING:
            replacement = await preview_of(confirmations, store, new, language=language)
    return render_receipt(action, language=language, replacement=replacement)
