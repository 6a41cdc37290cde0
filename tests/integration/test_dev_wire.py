"""`minara dev wire`: a model provider on loopback, as a process of its own."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anthropic
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

MINARA = Path(sys.executable).parent / "minara"
WAIT_SECONDS = 30


def environment(folder: Path, **changes: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}  # noqa: TID251 - the child's environment is explicit
    return kept | {"HOME": str(folder), "MINARA_DATA_DIR": str(folder / "data")} | changes


@asynccontextmanager
async def a_dev_wire(
    folder: Path, *options: str
) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str, asyncio.StreamReader]]:
    """The process, its address and the rest of what it prints, once it has said how to try it."""
    process = await asyncio.create_subprocess_exec(
        *(MINARA, "dev", "wire", "--port", "0", *options),
        env=environment(folder),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        url = (await line_of(process.stdout)).rpartition(" ")[2]
        for _ in range(7):
            await line_of(process.stdout)
        yield process, url, process.stdout
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line_of(output: asyncio.StreamReader) -> str:
    return (await asyncio.wait_for(output.readline(), WAIT_SECONDS)).decode().strip()


async def said_by_anthropic(url: str) -> str:
    async with AsyncAnthropic(api_key="dev", base_url=url, max_retries=0) as sdk:
        answer = await sdk.messages.create(
            model="claude-sonnet-5-5",
            max_tokens=100,
            messages=[{"role": "user", "content": "hello"}],
        )
    return "".join(block.text for block in answer.content if block.type == "text")


async def test_it_answers_by_rules_and_prints_a_line_for_each_request(tmp_path: Path) -> None:
    async with a_dev_wire(tmp_path) as (process, url, output):
        assert await said_by_anthropic(url)
        told = await line_of(output)
        assert re.fullmatch(
            r"messages claude-sonnet-5-5: \d+ tokens in, 0 read from the cache, 0 written, \d+"
            r" fresh; 0 of 1 blocks as before",
            told,
        )
        async with AsyncOpenAI(api_key="dev", base_url=f"{url}/v1", max_retries=0) as sdk:
            answer = await sdk.responses.create(model="gpt-6-sol", input="hello", store=False)
        assert answer.output_text
        assert (await line_of(output)).startswith("responses gpt-6-sol: ")
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), WAIT_SECONDS) == 0


async def test_it_plays_a_script_with_its_faults(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(
        '[{"texts": "First.", "faults": [{"fault": "status", "status": 529}]}, {"texts": "Next."}]'
    )
    async with a_dev_wire(tmp_path, "--script", str(script)) as (process, url, output):
        with pytest.raises(anthropic.InternalServerError):
            await said_by_anthropic(url)
        assert await line_of(output) == "messages: refused, 529: Overloaded"
        assert await said_by_anthropic(url) == "First."
        assert await said_by_anthropic(url) == "Next."
        process.terminate()
        assert await asyncio.wait_for(process.wait(), WAIT_SECONDS) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"ANTHROPIC_API_KEY": "dev", "MINARA_ANTHROPIC_BASE_URL": "{url}"},
        {"OPENAI_API_KEY": "dev", "MINARA_OPENAI_BASE_URL": "{url}/v1"},
        {
            "OPENAI_API_KEY": "dev",
            "MINARA_OPENAI_BASE_URL": "{url}/v1",
            "MINARA_OPENAI_API": "responses",
        },
    ],
    ids=["messages", "chat", "responses"],
)
async def test_a_person_without_a_key_can_try_the_whole_system(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async with a_dev_wire(tmp_path) as (_, url, output):
        changes = {name: value.format(url=url) for name, value in settings.items()}
        minara = await asyncio.create_subprocess_exec(
            *(MINARA, "chat", "--message", "price of BTC"),
            env=environment(tmp_path, **changes),
            cwd=tmp_path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await asyncio.wait_for(minara.communicate(), 60)
        assert minara.returncode == 0, said
        assert b"BTC:" in said
        first, second = await line_of(output), await line_of(output)
        assert "refused" not in first + second
        blocks = int(first.split(" blocks")[0].rpartition(" ")[2])
        assert f"; {blocks} of {blocks + 2} blocks as before" in second


async def ended(folder: Path, *options: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(MINARA, "dev", "wire", *options),
        env=environment(folder),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = await ended(tmp_path, "--port", port)
    assert code == 1
    assert f"port {port} is taken" in said
    assert "Traceback" not in said


async def test_a_script_that_is_none_is_said(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"text": "Hi."}]')
    code, said = await ended(tmp_path, "--port", "0", "--script", str(script))
    assert code == 1
    assert "answer 1 has no 'text'" in said
    code, said = await ended(tmp_path, "--rules", "--script", str(script))
    assert code == 2
    assert "exclude each other" in said
