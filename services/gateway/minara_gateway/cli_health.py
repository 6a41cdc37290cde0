"""`python -m minara_gateway.cli_health http|grpc HOST:PORT`: whether a Minara process is ready.

For health checks of containers, which run every few seconds beside the service: it imports little,
a tenth of what `minara health` does, and so knows neither settings nor TLS. Ends with 0 when it is
ready, else with 1 and the reason.
"""

import http.client
import sys
from collections.abc import Sequence
from typing import Any

SECONDS = 4.0
READY_PATH = "/readyz"


def http_complaint(address: str) -> str | None:
    """Why the gateway at `address` is not ready, None when it is."""
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    try:
        connection.request("GET", READY_PATH)
        answer = connection.getresponse()
        body = answer.read(2000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{address} does not answer: {error}"
    finally:
        connection.close()
    return None if answer.status == http.client.OK else body


def grpc_complaint(address: str) -> str | None:
    """Why the gRPC service at `address` is not ready, None when it is."""
    import grpc
    from grpc_health.v1 import health_pb2 as health_pb
    from grpc_health.v1 import health_pb2_grpc as health_grpc

    channel = grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),))
    stub: Any = health_grpc.HealthStub(channel)  # its type names no methods
    with channel:
        try:
            answer = stub.Check(health_pb.HealthCheckRequest(), timeout=SECONDS)
        except grpc.RpcError as error:
            return f"{address} does not answer: {error.code().name}: {error.details()}"
    if answer.status == health_pb.HealthCheckResponse.SERVING:
        return None
    return f"{address} is not serving"


def main(arguments: Sequence[str]) -> int:
    """The exit code for these arguments; the reason goes to stderr."""
    match list(arguments):
        case ["http", address]:
            complaint = http_complaint(address)
        case ["grpc", address]:
            complaint = grpc_complaint(address)
        case _:
            complaint = "say: http HOST:PORT, or grpc HOST:PORT"
    if complaint is None:
        return 0
    sys.stderr.write(complaint + "\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
