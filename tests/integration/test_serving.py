"""Where the gateway listens."""

import pytest

from minara_core.errors import Conflict
from minara_gateway.serving import PORTS_TO_TRY, bind_tcp


def test_a_taken_port_gives_way_to_the_next_free_one() -> None:
    with bind_tcp("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with bind_tcp("127.0.0.1", port) as found:
            assert port < found.getsockname()[1] < port + PORTS_TO_TRY


def test_no_free_port_is_a_conflict() -> None:
    last = 65535
    with (
        pytest.raises(Conflict, match="no free port"),
        bind_tcp("127.0.0.1", last),
        bind_tcp("127.0.0.1", last),
    ):
        pytest.fail("two listeners share a port")
