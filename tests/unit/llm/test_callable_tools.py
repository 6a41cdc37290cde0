"""What a request lets a model call: nobody has to guess what an empty list means."""

from typing import Any

import pytest

from minara_core.messages import user_message
from minara_llm.openai_request import callable_names
from support.offline_talk import a_request as an_offline_request
from support.offline_talk import reply
from support.wire.requests import a_request, a_tool

TOOLS = (a_tool("buy_token", "trade", 3), a_tool("get_price"), a_tool("read_file", "file"))


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (None, None),
        ((), ["get_price"]),
        (("read_file", "unknown"), ["get_price", "read_file"]),
        (("buy_token", "read_file"), None),
    ],
)
def test_an_empty_list_names_no_tool_and_none_is_no_list(
    named: tuple[str, ...] | None, found: Any
) -> None:
    assert callable_names(a_request(tools=TOOLS, callable_tools=named)) == found


async def test_the_offline_model_calls_nothing_that_it_may_not() -> None:
    buy = [user_message("buy $50 of ETH")]
    assert [name for name, _ in (await reply(an_offline_request(buy))).calls] == ["buy_token"]
    assert (await reply(an_offline_request(buy, callable_tools=()))).calls == ()
