"""Channels to peers: over TCP with keep-alive, limits and retries, or inside this process."""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import grpc.aio
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from minara_runtime.grant_interceptor import METADATA_KEY
from minara_runtime.inprocess import InProcessChannel, InProcessServer
from minara_runtime.limits import MAX_MESSAGE_BYTES
from minara_runtime.peer_channel import PeerChannel
from minara_runtime.tls import Tls

RETRY_POLICY: Mapping[str, object] = MappingProxyType(
    {
        "maxAttempts": 4,
        "initialBackoff": "0.05s",
        "maxBackoff": "1s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
)
"""For reads (AIP-194): nothing else retries by itself."""

_KEEP_ALIVE_MS = 30_000
_KEEP_ALIVE_TIMEOUT_MS = 10_000


def connect(
    target: str,
    *,
    peer: str,
    contracts: Iterable[FileDescriptor] = (),
    tls: Tls | None = None,
) -> grpc.aio.Channel:
    """A channel to `target` (`host:port`), made without waiting for the peer.

    `contracts` are the files (`tools_pb.DESCRIPTOR`) of the services called over it; their
    NO_SIDE_EFFECTS methods are retried. Calls raise MinaraErrors.
    """
    options = [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.keepalive_time_ms", _KEEP_ALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEP_ALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.service_config", service_config(contracts)),
        ("grpc.enable_retries", 1),
    ]
    if tls is None:
        channel = grpc.aio.insecure_channel(target, options=options)
    else:
        channel = grpc.aio.secure_channel(target, tls.channel_credentials(), options=options)
    return PeerChannel(channel, peer=peer)


def connect_in_process(server: InProcessServer, *, peer: str) -> grpc.aio.Channel:
    """A channel to a server of this process; behaves like the one `connect` makes."""
    return PeerChannel(InProcessChannel(server), peer=peer)


def with_grant(token: str) -> tuple[tuple[str, str], ...]:
    """Metadata of a call whose request carries no TurnContext: `metadata=with_grant(token)`."""
    return ((METADATA_KEY, token),)


def service_config(contracts: Iterable[FileDescriptor]) -> str:
    """The gRPC service config that retries the reads of `contracts`."""
    names = [
        {"service": service.full_name, "method": method.name}
        for contract in contracts
        for service in contract.services_by_name.values()
        for method in service.methods
        if _is_read(method)
    ]
    policies = [{"name": names, "retryPolicy": dict(RETRY_POLICY)}] if names else []
    return json.dumps({"methodConfig": policies})


def _is_read(method: MethodDescriptor) -> bool:
    return method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
