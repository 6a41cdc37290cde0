"""Channels to peers: over TCP with keep-alive, limits and retries, or inside this process."""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import grpc.aio
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from minara_core.grant import GrantType
from minara_runtime.grant_interceptor import METADATA_KEY, rule_of
from minara_runtime.inprocess import InProcessChannel, InProcessServer
from minara_runtime.limits import MAX_MESSAGE_BYTES
from minara_runtime.peer_channel import PeerChannel
from minara_runtime.tls import Tls

RETRY_POLICY: Mapping[str, object] = MappingProxyType(
    {
        "maxAttempts": 5,
        "initialBackoff": "0.05s",
        "maxBackoff": "1s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
)
"""For what may be done twice (ADR 0011): nothing else retries by itself."""

_KEEP_ALIVE_MS = 10_000
"""A peer that is frozen rather than dead is left this fast, and half as much again."""
_KEEP_ALIVE_TIMEOUT_MS = 5_000
_FIRST_RECONNECT_MS = 100
_LONGEST_RECONNECT_MS = 1_000
"""Together with the retries: a peer that has just started is reached by the first call."""
_SHORTEST_RESOLVING_MS = 1_000
_REPEATABLE = frozenset({MethodOptions.NO_SIDE_EFFECTS, MethodOptions.IDEMPOTENT})


def connect(
    target: str,
    *,
    peer: str,
    contracts: Iterable[FileDescriptor] = (),
    tls: Tls | None = None,
) -> grpc.aio.Channel:
    """A channel to `target` (`addresses.peer_target`), made without waiting for the peer.

    Calls go round all replicas that the target stands for, without those that do not answer or say
    that they are not serving. `contracts` are the files (`tools_pb.DESCRIPTOR`) of the services
    called over it; what of them may be done twice is tried again on another replica. With `tls` the
    peer's certificate must name `peer` (a DNS name among its alternative names), wherever it is.
    Calls raise MinaraErrors.
    """
    options: list[tuple[str, str | int]] = [
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.keepalive_time_ms", _KEEP_ALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEP_ALIVE_TIMEOUT_MS),
        # Its own default, a minute, else outlasts the time above while any ping is on its way.
        ("grpc.http2.ping_timeout_ms", _KEEP_ALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", _FIRST_RECONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", _LONGEST_RECONNECT_MS),
        ("grpc.dns_min_time_between_resolutions_ms", _SHORTEST_RESOLVING_MS),
        ("grpc.service_config", service_config(contracts)),
        ("grpc.enable_retries", 1),
    ]
    if tls is None:
        channel = grpc.aio.insecure_channel(target, options=options)
    else:
        options += [("grpc.default_authority", peer), ("grpc.ssl_target_name_override", peer)]
        channel = grpc.aio.secure_channel(target, tls.channel_credentials(), options=options)
    return PeerChannel(channel, peer=peer)


def connect_in_process(server: InProcessServer, *, peer: str) -> grpc.aio.Channel:
    """A channel to a server of this process; behaves like the one `connect` makes."""
    return PeerChannel(InProcessChannel(server), peer=peer)


def with_grant(token: str) -> tuple[tuple[str, str], ...]:
    """Metadata of a call whose request carries no TurnContext: `metadata=with_grant(token)`."""
    return ((METADATA_KEY, token),)


def service_config(contracts: Iterable[FileDescriptor]) -> str:
    """The gRPC service config: round robin over healthy replicas, retries of `contracts`."""
    names = [
        {"service": service.full_name, "method": method.name}
        for contract in contracts
        for service in contract.services_by_name.values()
        for method in service.methods
        if _may_retry(service.full_name, method)
    ]
    policies = [{"name": names, "retryPolicy": dict(RETRY_POLICY)}] if names else []
    return json.dumps(
        {
            "loadBalancingConfig": [{"round_robin": {}}],
            "healthCheckConfig": {"serviceName": ""},
            "methodConfig": policies,
        }
    )


def _may_retry(service: str, method: MethodDescriptor) -> bool:
    """A read, or a call whose request id makes a second one the same; never a person's decision."""
    rule = rule_of(f"/{service}/{method.name}")
    is_decision = rule is not None and GrantType.CONFIRMATION in rule.types
    return method.GetOptions().idempotency_level in _REPEATABLE and not is_decision
