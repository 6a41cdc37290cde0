"""The suite itself: leaving this machine raises."""

import asyncio
import socket

import pytest

from support.network import NetworkForbidden


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_a_connection_beyond_loopback_raises(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(NetworkForbidden):
        client.connect((host, 80))


def test_a_datagram_beyond_loopback_raises() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        pytest.raises(NetworkForbidden),
    ):
        client.sendto(b"x", ("192.0.2.1", 53))


async def test_a_look_up_raises() -> None:
    with pytest.raises(NetworkForbidden):
        await asyncio.open_connection("example.test", 80)


async def test_loopback_works() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("localhost", port)
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        await writer.wait_closed()
