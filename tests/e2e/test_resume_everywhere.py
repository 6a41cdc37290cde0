"""A long turn is cut by its client at every event and in the middle of frames: put together, what
came is byte for byte what an uncut stream brings, wherever the rest is asked for."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest

from minara_llm.scripted import calls, says
from support.deployments import MinaraFactory
from support.installations import new_person
from support.minara import Minara

STEPS = 12
SAID = "and what of ETH? 以太坊 🙂"
SCRIPTS = [
    *(
        calls(("get_price", {"symbol": "BTC"}), text=f"Schritt {number}: 價格 ₿ ‑ 한국어.")
        for number in range(STEPS)
    ),
    says("Bitcoin ", "比特幣 ", "is ", "🙂 ", "up."),
]
EVERY_BYTES = 127
"""No divisor of anything: in the long run cuts fall into names, ids, JSON and characters."""


@dataclass
class Cuttable:
    """Streams of one person, cut where a test likes."""

    minara: Minara
    http: httpx.AsyncClient
    turn_id: str = ""
    session_id: str = ""
    live: list[bytes] = field(default_factory=list[bytes])

    async def begin(self) -> None:
        """Start a turn and leave after its first event."""
        body = {"message": "price of BTC"}
        self._take(await self._first("POST", "/v1/chat/stream", json=body))

    async def watch(self) -> None:
        """Come back for each other event, and leave."""
        while not is_terminal(self.live[-1]):
            self._take(await self._first("GET", self.path, headers=last_id(self.live)))

    def _take(self, frame: bytes) -> None:
        self.live.append(frame)
        if not self.turn_id and b"event: turn_started" in frame:
            started = httpx.Response(200, content=frame.partition(b"\ndata: ")[2]).json()
            self.turn_id = started["turn_started"]["turn_id"]
            self.session_id = started["turn_started"]["session_id"]

    async def say_into(self, http: httpx.AsyncClient, *, expected: int) -> None:
        """Put a message into the turn."""
        body = {"message": SAID, "session_id": self.session_id, "turn_id": self.turn_id}
        answer = await http.post("/v1/chat/interject", json=body)
        assert answer.status_code == expected, answer.text

    async def read(self, after: Sequence[bytes] = (), *, most: int | None = None) -> bytes:
        """What comes behind these frames; of that only so many bytes, then the client leaves."""
        came = b""
        async with self.http.stream("GET", self.path, headers=last_id(after)) as response:
            assert response.status_code == 200
            async for piece in response.aiter_raw():
                came += piece
                if most is not None and len(came) >= most:
                    return came[:most]
        return came

    async def _first(self, method: str, path: str, **asked: Any) -> bytes:
        """The first event of a stream; its client leaves in the middle of the next one, if more
        came with it."""
        came = b""
        async with self.http.stream(method, path, **asked) as response:
            assert response.status_code == 200
            async for piece in response.aiter_raw():
                came += piece
                if frames(came):
                    return frames(came)[0]
        raise AssertionError(f"no event came: {came!r}")

    @property
    def path(self) -> str:
        return f"/v1/chat/stream/resume?turn_id={self.turn_id}"


def frames(came: bytes) -> list[bytes]:
    """The whole events among these bytes, as they came."""
    *whole, _ = came.split(b"\n\n")
    return [frame + b"\n\n" for frame in whole if b"\nid: " in frame]


def id_of(frame: bytes) -> int:
    return int(frame.partition(b"\nid: ")[2].partition(b"\n")[0])


def last_id(seen: Sequence[bytes]) -> dict[str, str]:
    return {"Last-Event-ID": str(id_of(seen[-1]))} if seen else {}


def is_terminal(frame: bytes) -> bool:
    return frame.startswith((b"event: turn_completed", b"event: turn_failed"))


def named(whole: Sequence[bytes], name: str) -> int:
    return sum(frame.startswith(f"event: {name}\n".encode()) for frame in whole)


@pytest.fixture
async def begun(minara_factory: MinaraFactory) -> AsyncGenerator[Cuttable]:
    """A turn that runs, and that nobody watches."""
    minara = await minara_factory(scripts=SCRIPTS)
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        turn = Cuttable(minara, http)
        await turn.begin()
        yield turn


@pytest.fixture
async def turn(begun: Cuttable) -> Cuttable:
    """A turn into which something was said and that was watched to its end, event by event."""
    await begun.say_into(begun.http, expected=200)
    await begun.watch()
    return begun


async def find_nothing(turn: Cuttable) -> None:
    """Somebody else neither sees nor steers it."""
    stranger = await new_person(turn.minara.installation)
    async with turn.minara.http(Authorization=f"Bearer {stranger.token}") as http:
        session = {"session_id": turn.session_id}
        answers = [
            await http.get(turn.path),
            await http.get("/v1/chat/stream/resume", params=session),
            await http.post("/v1/chat/interrupt", json={"turn_id": turn.turn_id}),
            await http.post("/v1/chat/interrupt", json=session),
        ]
        await turn.say_into(http, expected=404)
    await stranger.aclose()
    assert [answer.status_code for answer in answers] == [404] * 4
    reasons = {answer.json()["reason"] for answer in answers}
    assert reasons <= {"TURN_NOT_FOUND", "SESSION_NOT_FOUND"}


async def test_a_turn_that_is_left_at_every_event_while_it_runs_is_told_whole(
    turn: Cuttable,
) -> None:
    uncut = await turn.read()
    assert b"".join(turn.live) == b"".join(frames(uncut))
    assert [id_of(frame) for frame in turn.live] == list(range(1, len(turn.live) + 1))
    assert turn.live[-1].startswith(b"event: turn_completed")
    assert named(turn.live, "tool_call_finished") == STEPS
    assert named(turn.live, "user_interjected") == 1
    assert named(turn.live, "text_delta") > STEPS


async def test_a_stream_that_is_cut_at_any_byte_is_the_uncut_one_in_the_end(
    turn: Cuttable,
) -> None:
    uncut = await turn.read()
    whole = frames(uncut)
    borders = [uncut.index(frame) + len(frame) for frame in whole]
    for cut in sorted({*borders, *range(1, len(uncut), EVERY_BYTES)}):
        seen = frames(await turn.read(most=cut))
        assert seen == whole[: len(seen)]
        assert b"".join([*seen, *frames(await turn.read(seen))]) == b"".join(whole)


async def test_a_stream_that_is_cut_again_and_again_is_the_uncut_one_in_the_end(
    turn: Cuttable,
) -> None:
    uncut = await turn.read()
    whole = frames(uncut)
    longest = max(len(frame) for frame in whole)
    for size in (longest + 100, 2 * longest + 1, len(uncut) // 3):
        seen: list[bytes] = []
        while not (seen and is_terminal(seen[-1])):
            new = frames(await turn.read(seen, most=size))
            assert new, "a cut left less than one event"
            seen += new
        assert seen == whole
        assert all(id_of(b) == id_of(a) + 1 for a, b in pairwise(seen))


async def test_nothing_follows_the_last_event(turn: Cuttable) -> None:
    assert frames(await turn.read(turn.live)) == []


async def test_nobody_else_finds_a_turn_that_is_over(turn: Cuttable) -> None:
    await find_nothing(turn)


async def test_nobody_else_finds_a_turn_that_runs(begun: Cuttable) -> None:
    await find_nothing(begun)
    await begun.watch()
    assert b'"finish_reason":"FINISH_REASON_STOP"' in begun.live[-1].replace(b" ", b"")
    assert named(begun.live, "user_interjected") == 0
