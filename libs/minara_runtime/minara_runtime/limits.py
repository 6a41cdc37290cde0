"""Sizes that hold on every channel, over a socket and in process alike."""

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""The largest request or response, serialized; a larger one is RESOURCE_EXHAUSTED."""
