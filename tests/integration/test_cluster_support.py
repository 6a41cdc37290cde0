"""The harness itself: what it does to a replica happens, and nothing outlives the tests."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from support.cluster import HOST, Cluster, Port, Readiness
from support.eventually import eventually
from support.nursery import TESTS, Nursery, inherited
from support.proxy import LoopThread, Proxy, Wire

SHORT = 0.3


@pytest.fixture
def thread() -> Generator[LoopThread]:
    running = LoopThread("proxies")
    yield running
    running.close()


@asynccontextmanager
async def an_echo() -> AsyncGenerator[tuple[str, int]]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while some := await reader.read(1024):
                writer.write(some)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield HOST, server.sockets[0].getsockname()[1]


@pytest.fixture
async def proxy(thread: LoopThread) -> AsyncGenerator[Proxy]:
    async with an_echo() as target:
        port = Port()
        proxy = Proxy(thread, port.listener(), target)
        yield proxy
        proxy.close()
        port.close()


async def said(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], word: bytes
) -> bytes | None:
    """What comes back of a word, None for nothing within a moment."""
    reader, writer = streams
    writer.write(word)
    try:
        return await asyncio.wait_for(reader.read(1024), SHORT)
    except TimeoutError:
        return None


async def test_a_cut_wire_holds_everything_back_until_it_heals(proxy: Proxy) -> None:
    before = await asyncio.open_connection(*proxy.address)
    assert await said(before, b"one") == b"one"
    proxy.set(Wire.CUT)
    assert await said(before, b"two") is None
    after = await asyncio.open_connection(*proxy.address)
    assert await said(after, b"three") is None
    proxy.set(Wire.WHOLE)
    assert await asyncio.wait_for(before[0].read(1024), 5) == b"two"
    assert await asyncio.wait_for(after[0].read(1024), 5) == b"three"
    for _, writer in (before, after):
        writer.close()


async def test_a_refused_wire_resets_old_and_new_connections(proxy: Proxy) -> None:
    before = await asyncio.open_connection(*proxy.address)
    assert await said(before, b"one") == b"one"
    proxy.set(Wire.REFUSED)
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(before[0].read(1024), 5)
    with pytest.raises(ConnectionResetError):
        await said(await asyncio.open_connection(*proxy.address), b"two")
    proxy.set(Wire.WHOLE)
    again = await asyncio.open_connection(*proxy.address)
    assert await said(again, b"three") == b"three"
    again[1].close()


async def test_a_proxy_before_a_dead_replica_resets_too(thread: LoopThread) -> None:
    nobody, port = Port(), Port()
    proxy = Proxy(thread, port.listener(), (HOST, nobody.number))
    with pytest.raises(ConnectionResetError):
        await said(await asyncio.open_connection(*proxy.address), b"one")
    proxy.close()
    for held in (nobody, port):
        held.close()


def test_a_port_is_held_while_nobody_listens_on_it() -> None:
    port = Port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((HOST, port.number))
    port.close()


async def test_what_befalls_a_replica_shows_in_its_readiness(
    nursery: Nursery, tmp_path: Path
) -> None:
    cluster = Cluster(nursery, tmp_path / "cluster", is_proxied=True)
    try:
        await cluster.start(["skills"])
        skills = cluster.replica("skills")
        skills.stop()
        assert await skills.readiness() is Readiness.UNREACHABLE
        skills.cont()
        await skills.ready()
        skills.partition()
        assert await skills.readiness() is Readiness.SERVING
        skills.heal()
        skills.kill()
        assert (await skills.ended()).code == -signal.SIGKILL
        assert await skills.readiness() is Readiness.UNREACHABLE
        await skills.restart()
        ended = await skills.terminate()
        assert ended.code == 0
        assert ended.seconds < 10
        assert "serving" in skills.tail()
    finally:
        cluster.close()


KILLED = """
import sys
from pathlib import Path
from support.cluster import Cluster
from support.nursery import Nursery

folder = Path(sys.argv[1])
cluster = Cluster(Nursery(folder), folder / "cluster")
replica = cluster.replica("skills")
replica.start()
print(replica.pid, flush=True)
sys.stdin.read()
"""


async def test_nothing_outlives_a_test_process_that_is_killed(tmp_path: Path) -> None:
    tests = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, tmp_path),
        env=inherited() | {"PYTHONPATH": str(TESTS), "HOME": str(tmp_path)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert tests.stdout is not None
    pid = int(await tests.stdout.readline())
    assert lives(pid)
    tests.kill()
    await tests.wait()
    await eventually(lambda: not lives(pid), timeout=10)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
