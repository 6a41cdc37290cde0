"""Start to first answer, and resident memory, of the real command."""

import asyncio
import os
import sys
import time
from pathlib import Path

from bench.processes import resident_megabytes
from minara_gateway.client import GatewayClient
from minara_gateway.main import TOKEN_FILE
from minara_gateway.serving import SOCKET_FILE

MINARA = Path(sys.executable).parent / "minara"


async def measure_process(data_dir: Path) -> dict[str, float]:
    """Seconds from starting `minara chat --message` to its exit with the answer (second run, with
    its folder made), and megabytes of a serving one after an answer."""
    await _ask(data_dir)
    begin = time.perf_counter()
    await _ask(data_dir)
    seconds = time.perf_counter() - begin
    return {"start_to_first_answer_s": seconds, "resident_mb": await _resident(data_dir)}


def _environment(data_dir: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG"}}
    return kept | {"HOME": str(data_dir), "MINARA_DATA_DIR": str(data_dir)}


async def _ask(data_dir: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        MINARA,
        *("chat", "--message", "price of BTC"),
        env=_environment(data_dir),
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate()
    assert process.returncode == 0, answer


async def _resident(data_dir: Path) -> float:
    process = await asyncio.create_subprocess_exec(
        MINARA, "serve", env=_environment(data_dir), stdout=asyncio.subprocess.DEVNULL
    )
    token, socket = data_dir / TOKEN_FILE, data_dir / SOCKET_FILE
    try:
        while True:
            if socket.exists():
                client = GatewayClient.over_socket(socket, token.read_text("ascii").strip())
                try:
                    if await client.healthy():
                        await client.call("POST", "/v1/chat", {"message": "price of BTC"})
                        break
                finally:
                    await client.aclose()
            await asyncio.sleep(0.05)
        return resident_megabytes(process.pid)
    finally:
        process.terminate()
        await process.wait()
