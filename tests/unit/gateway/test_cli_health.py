"""A container is healthy when its service says so, and the reason is told when it is not."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import grpc
import pytest
from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1 import health_pb2 as health_pb

from minara_gateway.cli_health import READY_PATH, main

NOBODY = "127.0.0.1:1"


@contextmanager
def a_grpc_service(*, is_serving: bool) -> Generator[str]:
    status = health_pb.HealthCheckResponse
    servicer = health.HealthServicer()
    servicer.set("", status.SERVING if is_serving else status.NOT_SERVING)
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextmanager
def a_gateway(answer: int, body: bytes) -> Generator[str]:
    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answer if self.path == READY_PATH else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_serving_grpc_service_is_ready() -> None:
    with a_grpc_service(is_serving=True) as address:
        assert main(["grpc", address]) == 0


def test_a_grpc_service_that_drains_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    with a_grpc_service(is_serving=False) as address:
        assert main(["grpc", address]) == 1
    assert f"{address} is not serving" in capsys.readouterr().err


def test_a_ready_gateway_is_ready() -> None:
    with a_gateway(200, b'{"ready": true}') as address:
        assert main(["http", address]) == 0


def test_what_a_gateway_lacks_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with a_gateway(503, b'{"ready": false, "database": false}') as address:
        assert main(["http", address]) == 1
    assert '"database": false' in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_nobody_there_is_not_ready(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([kind, NOBODY]) == 1
    assert f"{NOBODY} does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["http"], ["grpc", NOBODY, "more"]])
def test_a_wrong_call_is_not_ready(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert "say: http HOST:PORT" in capsys.readouterr().err
