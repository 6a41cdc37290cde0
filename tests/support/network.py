"""The suite's kill switch: a test that leaves this machine fails at the first packet."""

import ipaddress
import sys
from typing import cast

_LOCAL_NAMES = frozenset({"", "localhost"})


class NetworkForbidden(AssertionError):
    """A test tried to reach another machine."""


def forbid_the_network() -> None:
    """Refuse connections, datagrams and look-ups beyond loopback, in this process, for good."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        address = arguments[1]
        if isinstance(address, tuple):
            _check(cast("tuple[object, ...]", address)[0])
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        _check(arguments[0])


def _check(host: object) -> None:
    name = host.decode() if isinstance(host, bytes) else str(host or "")
    if name in _LOCAL_NAMES:
        return
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        raise NetworkForbidden(f"a test looked up {name}") from None
    if not (address.is_loopback or address.is_unspecified):
        raise NetworkForbidden(f"a test connected to {name}")
