"""A turn's life in the ledger: opened, known to its calls, closed."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minara_core.clock import Clock
from minara_core.errors import Conflict, InvalidRequest, NotAuthenticated
from minara_core.grant import Grant, GrantType
from minara_core.ids import SessionId, TurnId, UserId
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import TOOL_SETS, Origin, PermissionTier
from minara_core.tooling import ToolCall
from minara_core.turn_context import TurnContext
from minara_tools.app.execute_tools import Batch
from minara_tools.app.stores import KnownTurn, TurnRecord, TurnStanding, TurnStore
from minara_tools.domain import permission
from minara_tools.domain.ledger import Selection, TurnLedger
from minara_tools.domain.trading import TradingStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTurn:
    """`ceiling` comes from origin, grant and trading state; stage and skills can only lower it."""

    standing: TurnStanding
    ceiling: PermissionTier


class TurnOpening:
    def __init__(self, turns: TurnStore, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock

    async def open(
        self,
        grant: Grant,
        context: TurnContext,
        *,
        message: str,
        decided_action_id: str,
        validate_only: bool,
        into_turn_id: TurnId,
    ) -> OpenedTurn:
        """Register the turn, or its message as said in the turn `into_turn_id`.

        Raises NotAuthenticated (GRANT_MISMATCH) for words the grant does not prove, Conflict
        (EPOCH_STALE), NotFound for a foreign session; with `into_turn_id` also as
        TurnStore.interject, and InvalidRequest for anything but the words of a person.
        """
        _check_message(grant, message)
        turn = self._record(grant, context, message, decided_action_id, into_turn_id)
        if into_turn_id:
            _check_interjection(turn, validate_only=validate_only)
            standing = await self._turns.interject(turn)
        elif validate_only:
            standing = await self._turns.standing(turn)
        else:
            standing = await self._turns.open(turn)
        ceiling = permission.turn_ceiling(
            origin=turn.origin,
            opted_in=turn.opted_in,
            grant_ceiling=turn.grant_ceiling,
            trading_state=standing.trading.state,
        )
        return OpenedTurn(standing=standing, ceiling=ceiling)

    async def close(self, grant: Grant, context: TurnContext, *, is_completed: bool) -> None:
        """The turn's grant stops counting; repeating it is harmless."""
        await self._turns.close(context.turn_id, UserId(grant.subject), is_completed=is_completed)

    async def batch(
        self,
        grant: Grant,
        context: TurnContext,
        calls: Sequence[ToolCall],
        selection: Selection,
    ) -> Batch:
        """A step's calls with their turn from the ledger; what is unknown is closed.

        Raises Conflict (EPOCH_STALE) for a caller that lost its session to another.
        """
        ids = [call.tool_call_id for call in calls]
        known = await self._turns.find(context.turn_id, UserId(grant.subject), ids)
        if known is None or known.turn.session_id != context.session_id:
            trading = await self._turns.trading(UserId(grant.subject))
            turn = self._record(grant, context, "", "", TurnId(""))
            known = _never_opened(turn, trading)
        if context.session_epoch < known.session_epoch:
            raise Conflict(
                "another process serves this session now",
                reason=ErrorReason.EPOCH_STALE,
                metadata={"session_epoch": str(known.session_epoch)},
            )
        return Batch(
            ledger=_ledger(known, context.allowed_tool_sets),
            recorded=known.recorded,
            calls=tuple(calls),
            selection=selection,
        )

    async def single_read(self, grant: Grant, call: ToolCall) -> Batch:
        """One call outside any turn, for a REQUEST grant."""
        user_id = UserId(grant.subject)
        trading = await self._turns.trading(user_id)
        ledger = TurnLedger(
            turn_id=TurnId(""),
            session_id=SessionId(""),
            user_id=user_id,
            origin=Origin.HTTP,
            is_open=True,
            tool_sets=frozenset(TOOL_SETS) - {"turn"},
            grant_ceiling=PermissionTier.READ_ONLY,
            trading_state=trading.state,
            is_request=True,
        )
        return Batch(ledger=ledger, recorded={}, calls=(call,), selection=Selection())

    def _record(
        self,
        grant: Grant,
        context: TurnContext,
        message: str,
        decided_action_id: str,
        into_turn_id: TurnId,
    ) -> TurnRecord:
        return TurnRecord(
            turn_id=context.turn_id,
            session_id=context.session_id,
            user_id=UserId(grant.subject),
            origin=grant.origin or context.origin,
            opted_in=grant.grant_type is GrantType.RUN and grant.opted_in,
            granted_sets=grant.tool_sets,
            asked_sets=frozenset(context.allowed_tool_sets),
            grant_ceiling=grant.ceiling,
            epoch=context.session_epoch,
            message=message,
            decided_action_id=decided_action_id,
            open_time=self._clock.now(),
            into_turn_id=into_turn_id,
        )


def _check_message(grant: Grant, message: str) -> None:
    """A turn's words are those its grant names, none left out and none added."""
    if not message and not grant.message_sha256:
        return
    if hashlib.sha256(message.encode()).hexdigest() != grant.message_sha256:
        raise NotAuthenticated(
            "the grant is for another message",
            reason=ErrorReason.GRANT_MISMATCH,
            metadata={"field": "message"},
        )


def _check_interjection(message: TurnRecord, *, validate_only: bool) -> None:
    """Only a person puts words into a running turn; they are words, and never a decision."""
    if not message.message.strip():
        raise InvalidRequest(
            "an interjection has words",
            reason=ErrorReason.MESSAGE_EMPTY,
            metadata={"field": "message"},
        )
    wrong = {
        "context.origin": not message.origin.is_human,
        "validate_only": validate_only,
        "decided_action_id": bool(message.decided_action_id),
        "into_turn_id": message.into_turn_id == message.turn_id,
    }
    for field, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidRequest(
                "a message of a person goes into another turn of theirs, as words only",
                metadata={"field": field},
            )


def _never_opened(turn: TurnRecord, trading: TradingStanding) -> KnownTurn:
    return KnownTurn(
        turn=turn,
        is_open=False,
        session_epoch=0,
        trading=trading,
        human_messages=(),
        interjections=(),
        calls_made=0,
        was_rejected_again=False,
        read_sources=(),
        recorded={},
    )


def _ledger(known: KnownTurn, asked_sets: Iterable[str]) -> TurnLedger:
    turn = known.turn
    return TurnLedger(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        user_id=turn.user_id,
        origin=turn.origin,
        is_open=known.is_open,
        tool_sets=permission.allowed_tool_sets(
            origin=turn.origin,
            opted_in=turn.opted_in,
            granted=turn.granted_sets,
            asked=asked_sets,
            is_decision=bool(turn.decided_action_id),
        ),
        grant_ceiling=turn.grant_ceiling,
        trading_state=known.trading.state,
        opted_in=turn.opted_in,
        message=turn.message,
        human_messages=known.human_messages,
        interjections=known.interjections,
        calls_made=known.calls_made,
        was_rejected_again=known.was_rejected_again,
        read_sources=known.read_sources,
    )
