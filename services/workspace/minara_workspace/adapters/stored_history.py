"""A stored history on its way to a prompt: whole, or, when it is too large, without its oldest.

Its reader makes every history far smaller than a message may be. This is for what was committed all
the same: however large, it must not end the session.
"""

from minara.workspace.v1 import context_service_pb2 as context_pb
from minara_runtime.limits import MAX_MESSAGE_BYTES

TOO_LONG_NOTICE = "the oldest turns of this session are too large to be read again"


def add_history(response: context_pb.PrepareTurnResponse, history: bytes) -> None:
    """Put the history into a response that lacks nothing else.

    A history is stored as messages that hold nothing but `history` and its parts; joined they
    merge. While the response is too large, oldest first: what providers keep for themselves goes,
    then turns, but no boundary notes.
    """
    most = MAX_MESSAGE_BYTES - len(TOO_LONG_NOTICE) - 8
    is_short = len(history) + response.ByteSize() <= most
    response.MergeFromString(history)
    if not is_short:
        _drop_turns(response, _drop_states(response, response.ByteSize() - most))


def _drop_states(response: context_pb.PrepareTurnResponse, excess: int) -> int:
    """How many bytes are then still too many."""
    for message in response.history:
        if excess <= 0:
            break
        before = message.ByteSize()
        message.ClearField("provider_state")
        excess -= before - message.ByteSize()
    return excess


def _drop_turns(response: context_pb.PrepareTurnResponse, excess: int) -> None:
    """Blocks that went with them stand nowhere: what was sent is not known any more."""
    if excess <= 0:
        return
    kept = context_pb.PrepareTurnResponse()
    covered = sum(part.message_count for part in response.history_parts)
    uncovered = max(0, len(response.history) - covered)
    place = 0
    for part in (context_pb.HistoryPart(message_count=uncovered), *response.history_parts):
        messages = response.history[place : place + part.message_count]
        place += part.message_count
        is_note = not part.turn_id and place > uncovered
        if excess > 0 and not is_note:
            excess -= sum(message.ByteSize() for message in messages)
            continue
        kept.history.extend(messages)
        if place > uncovered:
            kept.history_parts.append(part)
    del response.history[:], response.history_parts[:], response.sent_blocks[:]
    response.MergeFrom(kept)
    response.notices.append(TOO_LONG_NOTICE)
