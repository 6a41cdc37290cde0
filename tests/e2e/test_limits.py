"""Limits and recipients over HTTP and in the terminal chat."""

from io import StringIO

import pytest
from rich.console import Console

from minara_core.reasons import ErrorReason
from minara_gateway.client import ProblemError
from minara_gateway.repl import Repl
from support.minara import Minara
from support.tools.funds import EVM_ADDRESS


async def talk(minara: Minara, *lines: str) -> str:
    console = Console(file=StringIO(), width=200, no_color=True)
    repl = Repl(minara.client, console, print_trace=lambda _: None)
    await repl.run(Lines(*lines))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


class Lines:
    """Implements LineSource."""

    is_terminal = True
    reads_beside = False
    has_begun = False

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    async def read(self, prompt: str) -> str | None:
        return self._lines.pop(0) if self._lines else None


async def test_limits_are_read_and_changed_over_http(minara: Minara) -> None:
    before = (await minara.client.call("GET", "/v1/limits"))["limits"]
    assert before["is_chosen"] is False
    body = {"preset": "small", "values": {"max_day_moves": "3"}}
    after = (await minara.client.call("PATCH", "/v1/limits", body))["limits"]
    shown = {one["name"]: one["value"]["value"] for one in after["limits"]}
    assert (shown["max_move_usd"], shown["max_day_moves"]) == ("500", "3")
    assert (await minara.client.call("GET", "/v1/limits"))["limits"] == after


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"values": {"max_move_usd": "０"}}, ErrorReason.AMOUNT_INVALID),
        ({"values": {"max_move_usd": 5}}, ErrorReason.REQUEST_INVALID),
        ({"max_move_usd": "5"}, ErrorReason.REQUEST_INVALID),
        ({"preset": "huge"}, ErrorReason.REQUEST_INVALID),
        ({}, ErrorReason.FIELD_REQUIRED),
    ],
)
async def test_a_change_that_makes_no_sense_is_a_bad_request(
    minara: Minara, body: dict[str, object], reason: ErrorReason
) -> None:
    with pytest.raises(ProblemError) as refused:
        await minara.client.call("PATCH", "/v1/limits", body)
    assert (refused.value.status, refused.value.reason) == (400, reason)


async def test_recipients_are_entered_and_removed_over_http(minara: Minara) -> None:
    body = {"name": "wallet", "chain": "ethereum", "address": EVM_ADDRESS}
    entered = (await minara.client.call("POST", "/v1/addresses", body))["address"]
    listed = await minara.client.call("GET", "/v1/addresses?page_size=1")
    assert listed["addresses"] == [entered]
    path = f"/v1/addresses/{entered['address_id']}"
    for _ in range(2):
        await minara.client.call("DELETE", path, {})
    assert (await minara.client.call("GET", "/v1/addresses"))["addresses"] == []
    with pytest.raises(ProblemError) as refused:
        await minara.client.call("DELETE", "/v1/addresses/nobody", {})
    assert (refused.value.status, refused.value.reason) == (404, ErrorReason.ADDRESS_NOT_FOUND)


async def test_the_chat_shows_and_sets_limits_without_the_model(minara: Minara) -> None:
    shown = await talk(minara, "/limits", "/limits max_move_usd=800", "/limits nonsense")
    assert "these are the standard limits" in shown
    assert "max_move_usd                    800" in shown
    assert "REQUEST_INVALID" in shown


async def test_a_move_over_the_persons_own_limit_is_denied_with_the_way_out(
    minara: Minara,
) -> None:
    await minara.client.call("PATCH", "/v1/limits", {"values": {"max_move_usd": "40"}})
    shown = await talk(minara, "buy $50 of ETH")
    assert "your limit max_move_usd is 40" in shown
    assert "minara limits set max_move_usd=50" in shown
    assert "PATCH /v1/limits" in shown
