"""The write-once store: every checkpoint arrives, in order, however it fails, and holds up none."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from minara_runtime.audit_checkpoint_file import CheckpointFile
from minara_runtime.audit_webhook import CheckpointSender
from support.audit_books import Books, some_books
from support.audit_store import a_store
from support.databases import Databases
from support.eventually import eventually


@asynccontextmanager
async def sending(file: CheckpointFile, url: str) -> AsyncGenerator[CheckpointSender]:
    sender = CheckpointSender(file, url, service="tools", first_back_off_seconds=0.01)
    job = asyncio.create_task(sender.run_forever())
    try:
        yield sender
    finally:
        job.cancel()
        await asyncio.wait([job])


@pytest.fixture
async def books(sqlite_databases: Databases, tmp_path: Path) -> Books:
    made = await some_books(sqlite_databases, tmp_path)
    for _ in range(3):
        await made.write_and_cover()
    return made


async def test_all_that_the_file_holds_is_sent_in_order(books: Books) -> None:
    async with a_store() as store, sending(books.file, store.url):
        await eventually(lambda: store.taken == books.lines)


async def test_what_comes_later_is_sent_when_it_is_noticed(books: Books) -> None:
    async with a_store() as store, sending(books.file, store.url) as sender:
        await eventually(lambda: store.taken == books.lines)
        await books.write_and_cover()
        sender.notice()
        await eventually(lambda: len(store.taken) == 4 and store.taken == books.lines)


@pytest.mark.parametrize("state", [500, 404, 302])
async def test_a_store_that_refuses_gets_the_same_one_again(books: Books, state: int) -> None:
    async with a_store(state, state) as store, sending(books.file, store.url):
        await eventually(lambda: store.taken == books.lines)
        assert store.asked == 5


async def test_a_store_that_has_it_already_is_content(books: Books) -> None:
    async with a_store(409) as store, sending(books.file, store.url):
        await eventually(lambda: store.taken == books.lines)
        assert store.asked == 3


async def test_a_restart_goes_on_behind_what_was_taken(books: Books) -> None:
    sent = books.file.path.with_name("tools.checkpoints.sent")
    async with a_store() as store, sending(books.file, store.url):
        await eventually(lambda: len(store.taken) == 3)
        await eventually(lambda: str(len(b"".join(books.lines))) in sent.read_text("ascii"))
    await books.write_and_cover()
    async with a_store() as store, sending(books.file, store.url):
        await eventually(lambda: store.taken == books.lines[3:])
    assert sent.stat().st_mode & 0o777 == 0o600


async def test_a_store_that_was_down_misses_nothing(books: Books) -> None:
    async with a_store() as store:
        url = store.url
    async with sending(books.file, url) as sender:
        await books.write_and_cover()
        sender.notice()
    async with a_store() as store, sending(books.file, store.url):
        await eventually(lambda: store.taken == books.lines)
        assert len(store.taken) == 4


async def test_a_note_that_was_lost_sends_everything_again(books: Books) -> None:
    sent = books.file.path.with_name("tools.checkpoints.sent")
    sent.write_text("nonsense", "ascii")
    async with a_store() as store, sending(books.file, store.url):
        await eventually(lambda: store.taken == books.lines)
