"""Group commit: order, durability, errors and the end."""

import asyncio

import pytest

from minara_core.errors import Unavailable
from minara_core.reasons import ErrorReason
from minara_runtime.batching import GroupCommit


class Disk:
    """Takes batches when the test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.open = asyncio.Event()
        self.started = asyncio.Event()
        self.broken = False

    async def flush(self, items: list[int]) -> None:
        self.started.set()
        await self.open.wait()
        if self.broken:
            raise OSError("full")
        self.batches.append(items)


async def test_what_comes_during_a_write_goes_into_one_next_batch() -> None:
    disk = Disk()
    commits = GroupCommit(disk.flush)
    first = asyncio.create_task(commits.put(1))
    await disk.started.wait()
    later = [asyncio.create_task(commits.put(number)) for number in (2, 3, 4)]
    await asyncio.wait([first, *later], timeout=0.01)
    assert not first.done()
    disk.open.set()
    await asyncio.wait([first, *later])
    assert disk.batches == [[1], [2, 3, 4]]


async def test_items_of_one_turn_of_the_loop_share_a_batch() -> None:
    disk = Disk()
    disk.open.set()
    commits = GroupCommit(disk.flush)
    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(commits.put(number))
    assert disk.batches == [[0, 1, 2, 3, 4]]


async def test_a_batch_has_a_limit_and_keeps_the_order() -> None:
    disk = Disk()
    disk.open.set()
    commits = GroupCommit(disk.flush, max_batch=3)
    async with asyncio.TaskGroup() as group:
        for number in range(7):
            group.create_task(commits.put(number))
    assert disk.batches == [[0, 1, 2], [3, 4, 5], [6]]


async def test_an_error_reaches_everybody_in_the_batch_and_nobody_else() -> None:
    disk = Disk()
    disk.open.set()
    disk.broken = True
    commits = GroupCommit(disk.flush)
    failing = [asyncio.create_task(commits.put(number)) for number in (1, 2)]
    await asyncio.wait(failing)
    assert [type(task.exception()) for task in failing] == [OSError, OSError]
    disk.broken = False
    await commits.put(3)
    assert disk.batches == [[3]]


async def test_a_cancelled_caller_does_not_take_its_item_back() -> None:
    disk = Disk()
    commits = GroupCommit(disk.flush)
    first = asyncio.create_task(commits.put(1))
    await disk.started.wait()
    second = asyncio.create_task(commits.put(2))
    await asyncio.wait([second], timeout=0.01)
    first.cancel()
    second.cancel()
    disk.open.set()
    await commits.aclose()
    assert disk.batches == [[1], [2]]


async def test_closing_writes_what_waits_and_refuses_what_comes() -> None:
    disk = Disk()
    commits = GroupCommit(disk.flush, max_batch=1)
    tasks = [asyncio.create_task(commits.put(number)) for number in (1, 2)]
    await disk.started.wait()
    closing = asyncio.create_task(commits.aclose())
    disk.open.set()
    await closing
    assert disk.batches == [[1], [2]]
    await asyncio.wait(tasks)
    with pytest.raises(Unavailable) as refused:
        await commits.put(3)
    assert refused.value.reason is ErrorReason.SHUTTING_DOWN
    await commits.aclose()
