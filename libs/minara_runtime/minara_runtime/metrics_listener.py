"""`GET /metrics` for Prometheus: a listener of its own, off the event loop."""

import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from typing_extensions import override

from minara_runtime.settings import SettingsError

PATH = "/metrics"
_SLOW_READER_SECONDS = 10
_POLL_SECONDS = 0.2
"""How soon a closing is noticed."""


class MetricsListener:
    """Answers from when it is made until `close`. `before` is called ahead of each answer."""

    def __init__(
        self, address: str, registry: CollectorRegistry, before: Callable[[], None]
    ) -> None:
        """Listen on `host:port`. Raises SettingsError when that cannot be bound."""

        class Answer(BaseHTTPRequestHandler):
            timeout = _SLOW_READER_SECONDS

            def do_GET(self) -> None:
                if self.path.partition("?")[0] != PATH:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                before()
                body = generate_latest(registry)
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            @override
            def log_message(self, format: str, *args: object) -> None:
                """Nothing: a scrape is no news."""

        host, _, port = address.rpartition(":")
        try:
            self._server = _server_class(host)((host.strip("[]"), int(port)), Answer)
        except OSError as error:
            raise SettingsError(
                f"MINARA_METRICS_ADDRESS: {address} cannot be listened on ({error.strerror}); "
                "each process needs one of its own",
                metadata={"field": "MINARA_METRICS_ADDRESS"},
            ) from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Refuse from now on."""
        self._server.shutdown()
        self._server.server_close()


def _server_class(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    return Server
