"""Where services listen and where their peers find them."""

import ipaddress

_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "xds:")
_LOCALHOST = "127.0.0.1"


def peer_target(text: str) -> str:
    """A gRPC target from `host:port`, from the IP addresses of several replicas
    (`127.0.0.1:1,127.0.0.1:2`), or from a target that names its scheme (`dns:///tools:50054`).

    A name stands for all addresses it resolves to. Raises ValueError.
    """
    if text.startswith(_SCHEMES):
        return text
    places = [listening(part.strip()) for part in text.split(",")]
    if len(places) == 1:
        return places[0]
    hosts = [place.rpartition(":")[0].strip("[]") for place in places]
    places = [place.replace("localhost:", f"{_LOCALHOST}:") for place in places]
    try:
        versions = {ipaddress.ip_address(h if h != "localhost" else _LOCALHOST) for h in hosts}
    except ValueError:
        raise ValueError(
            "several addresses must be IP addresses; dns:///name:port stands for all a name has"
        ) from None
    families = {address.version for address in versions}
    if len(families) != 1:
        raise ValueError("several addresses must be all IPv4 or all IPv6")
    return f"ipv{families.pop()}:{','.join(places)}"


def listening(text: str) -> str:
    """`host:port` with a port from 0 (any free one) to 65535. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= 65535
    if not (host and colon and is_port):
        raise ValueError("is no host:port")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError("an IPv6 address stands in brackets, as in [::1]:50051")
    return text


def own_address(listen: str | None, target: str) -> str | None:
    """Where a service binds: `listen`, else its own target if that is one place, else None."""
    if listen is not None:
        return listen
    return None if target.startswith(_SCHEMES) else target
