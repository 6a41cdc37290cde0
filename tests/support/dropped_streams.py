"""Watch a turn thousands of times and leave at once; prints what that costs, as JSON.

Gateway, orchestrator and clients run in this process, which does nothing else: so it can count what
is left of them.
"""

import asyncio
import ctypes
import gc
import json
import sys
import tempfile
from pathlib import Path

from minara.orchestrator.v1 import agent_service_pb2 as agent_pb
from minara_llm.scripted import says
from support.grpc_person import GrpcPerson
from support.held_model import HeldModel
from support.minara import a_minara

AT_ONCE = 20
ROUND = 500


def resident_bytes() -> int:
    """What is in memory once the C library has given back what nobody uses."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4_096


async def measure(folder: Path, counts: list[int]) -> dict[str, object]:
    """Resident bytes after each of so many dropped streams, and the tasks that are left of them."""
    model = HeldModel([says("One. ", "Two.")])
    async with a_minara(folder, model=model) as minara:
        channels = minara.channel("orchestrator"), minara.channel("workspace")
        person = GrpcPerson.of(folder, minara.user_id, *channels)
        await person.begin()
        begun = person.request("count")
        await person.first(begun, "text_delta")
        request = person.attaching(begun.context.turn_id)
        tasks = len(asyncio.all_tasks())
        resident: list[int] = []
        done = 0
        for count in counts:
            while done < count:
                await drop(person, request, ROUND)
                done += ROUND
                minara.forget_spans()  # the harness keeps them, not Minara
                gc.collect()
            resident.append(resident_bytes())
        left = len(asyncio.all_tasks()) - tasks
        model.go_on.set()
        events = await person.events(request)
        return {"resident": resident, "left": left, "end": events[-1].WhichOneof("event")}


async def drop(person: GrpcPerson, request: agent_pb.RunTurnRequest, count: int) -> None:
    async def some(number: int) -> None:
        for _ in range(number):
            await person.first(request, "text_delta")

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(some(count // AT_ONCE))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts = [int(word) for word in sys.argv[1:]]
        figures = asyncio.run(measure(Path(folder), counts))
    sys.stdout.write("\n" + json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
