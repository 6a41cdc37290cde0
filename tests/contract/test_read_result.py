"""Results are read again in parts: one's own, whole, and as text from outside."""

import itertools
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from minara_core.reasons import DenialReason
from minara_core.tooling import ToolFailure, ToolPending, ToolSuccess, dump_json
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.registry import ToolContext
from minara_tools.domain.results import MAX_ENVELOPE_BYTES
from minara_tools.main import VERSIONS
from support.databases import Databases
from support.tools.entries import a_move_tool, a_tool
from support.tools.house import ToolsHouse, a_buy, a_call, a_house
from support.tools.venue import FakeVenue

TEXT = '以太 "quoted" \\ \u2028 line\n' * 20_000


async def _large(arguments: BaseModel, context: ToolContext) -> object:
    return {"content": TEXT}


async def _broken(arguments: BaseModel, context: ToolContext) -> object:
    raise ToolFailed("NOT_TEXT", "the file is no UTF-8 text")


@pytest.fixture
async def house(databases: Databases, tmp_path: Path) -> AsyncGenerator[ToolsHouse]:
    venue = FakeVenue()
    entries = (
        a_tool("read_file", tool_set="file", handler=_large),
        a_tool("get_price"),
        a_tool("get_trending", handler=_broken),
        a_move_tool(venue),
    )
    database = await databases.open(VERSIONS)
    async with a_house(database, tmp_path, venue=venue, entries=entries) as made:
        yield made


_NUMBERS = itertools.count()


async def read(house: ToolsHouse, uri: str, *, turn_id: str = "turn-1", **changes: int) -> Any:
    call = a_call("read_result", f"9.{next(_NUMBERS)}", dump_json({"uri": uri, **changes}))
    outcome = (await house.one(call, turn_id=turn_id)).outcome
    if isinstance(outcome, ToolSuccess):
        assert outcome.is_untrusted
        return json.loads(outcome.data_json)
    assert isinstance(outcome, ToolFailure)
    return outcome.reason


async def test_a_cut_result_is_whole_again_part_by_part(house: ToolsHouse) -> None:
    await house.open()
    cut = json.loads((await house.one(a_call("read_file"))).envelope)["data"]
    assert cut["whole"] == "result://turn-1/1.0"
    parts, offset, length = "", 0, 0
    while offset is not None:
        answer = await read(house, cut["whole"], offset=offset)
        assert "is_cut" not in answer
        assert len(dump_json(answer).encode()) <= MAX_ENVELOPE_BYTES
        parts += answer["part"]
        offset, length = answer["next_offset"], answer["total_length"]
    assert json.loads(parts) == {"content": TEXT}
    assert length == len(parts)


async def test_a_limit_and_an_offset_beyond_the_end_are_kept_to(house: ToolsHouse) -> None:
    await house.open()
    await house.one(a_call("read_file"))
    answer = await read(house, "result://turn-1/1.0", offset=12, limit=5)
    assert answer["part"] == dump_json({"content": TEXT})[12:17]
    assert answer["next_offset"] == 17
    beyond = await read(house, "result://turn-1/1.0", offset=10**9)
    assert (beyond["part"], beyond["next_offset"]) == ("", None)


async def test_a_short_result_is_read_from_the_recorded_call(house: ToolsHouse) -> None:
    await house.open()
    await house.one(a_call("get_price"))
    await house.close()
    await house.open("turn-2", "and now?")
    answer = await read(house, "result://turn-1/1.0", turn_id="turn-2")
    assert answer["part"] == '{"tool":"get_price"}'
    assert (answer["tool"], answer["next_offset"]) == ("get_price", None)


async def test_what_failed_was_denied_or_waits_is_told_as_it_was(house: ToolsHouse) -> None:
    action = await house.pending()
    await house.execute(a_call("get_trending", "2.0"), a_call("nothing_like_it", "2.1"))
    failed = await read(house, "result://turn-1/2.0")
    assert json.loads(failed["part"]) == {"error": "NOT_TEXT: the file is no UTF-8 text"}
    denied = await read(house, "result://turn-1/2.1")
    assert json.loads(denied["part"])["error"].startswith(DenialReason.TOOL_UNKNOWN)
    waits = await read(house, f"result://turn-1/{action.tool_call_id}")
    assert json.loads(waits["part"])["pending_action_id"] == action.pending_action_id


@pytest.mark.parametrize(
    "uri",
    ["result://turn-1/7.7", "result://turn-9/1.0", "result://turn-1", "file:///etc/passwd", "x"],
)
async def test_an_unknown_address_is_not_found(house: ToolsHouse, uri: str) -> None:
    await house.open()
    await house.one(a_call("get_price"))
    assert await read(house, uri) == "NOT_FOUND"


async def test_another_persons_result_is_not_found(house: ToolsHouse) -> None:
    await house.open()
    await house.one(a_call("get_price"))
    await house.open("turn-2", "and now?", user_id="somebody", session_id="session-2")
    assert await read(house, "result://turn-1/1.0", turn_id="turn-2") == "NOT_FOUND"


async def test_no_skill_has_to_make_it_callable(house: ToolsHouse) -> None:
    await house.open()
    await house.one(a_call("get_price"))
    call = a_call("read_result", "2.0", dump_json({"uri": "result://turn-1/1.0"}))
    outcome = (await house.execute(call, callable_tools=()))["2.0"].outcome
    assert isinstance(outcome, ToolSuccess)


async def test_a_move_after_reading_a_result_again_is_only_previewed_and_says_so(
    house: ToolsHouse,
) -> None:
    await house.open("turn-1")
    await house.one(a_call("read_file"))
    await house.open("turn-2")
    await read(house, "result://turn-1/1.0", turn_id="turn-2", limit=10)
    outcome = (await house.one(a_buy("2.0"), turn_id="turn-2")).outcome
    assert isinstance(outcome, ToolPending)
    assert "read_result" in outcome.action.read_sources
