"""Showing a person what waits and what came of it: what is shown is remembered, and only that can
be decided."""

from minara_core.actions import ActionState, PendingAction
from minara_core.errors import NotFound
from minara_gateway.confirmation import Confirmations
from minara_gateway.rendering import render_preview, render_receipt
from minara_gateway.store import Caller, GatewayStore


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
