"""Turn events as server-sent events: name, sequence, proto3 JSON."""

import json
from urllib.parse import urlencode

from minara.agent.v1 import event_pb2 as event_pb
from minara_gateway.event_json import message_json

RETRY_MILLISECONDS = 1_000
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": still here\n\n"
_OTHER_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})
_LONGEST_NUMBER = 12
STREAM_ENDED = "stream_ended"
OPENING = f"retry: {RETRY_MILLISECONDS}\n\n".encode()


def event_json(event: event_pb.TurnEvent) -> str:
    """An event as one line of proto3 JSON with original field names, zero values included.

    Line ends that only some readers know (U+0085, U+2028, U+2029) are escaped.
    """
    return message_json(event).translate(_OTHER_LINE_ENDS)


def frame(event: event_pb.TurnEvent) -> bytes:
    """One SSE frame."""
    name = event.WhichOneof("event") or "unknown"
    return f"event: {name}\nid: {event.sequence}\ndata: {event_json(event)}\n\n".encode()


def resume_hint(turn_id: str, session_id: str, after: int) -> bytes:
    """The last frame of a stream that ends before its turn does: where the rest is to be had.

    It has no id, so that a client's own Last-Event-ID stands.
    """
    names = {"turn_id": turn_id} if turn_id else {"session_id": session_id}
    path = f"/v1/chat/stream/resume?{urlencode(names | {'after': after})}"
    return f"event: {STREAM_ENDED}\ndata: {json.dumps({'resume': path})}\n\n".encode()


def last_event_id(header: str | None, after: int) -> int:
    """Where to go on: `Last-Event-ID` wins over `after`; anything else than digits is 0."""
    if header is not None and header.isascii() and header.isdigit():
        return min(int(header[:_LONGEST_NUMBER]), 2**31 - 1)
    return after if header is None else 0
