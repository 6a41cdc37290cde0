"""The same request sent twice at once, as by a client that lost its patience, is one request."""

import asyncio
from typing import Any

import httpx

from support.minara import Minara

ORDER = {"side": "buy", "symbol": "ETH", "amount_unit": "quote", "amount": "50"}


async def answers(
    minara: Minara, path: str, body: dict[str, Any], key: str
) -> list[httpx.Response]:
    headers = {"Authorization": f"Bearer {minara.token}", "Idempotency-Key": key}
    async with minara.http(**headers) as http, asyncio.TaskGroup() as group:
        asked = [group.create_task(http.post(path, json=body, timeout=30)) for _ in range(4)]
    return [task.result() for task in asked]


async def test_an_order_asked_for_several_times_at_once_is_one_preview(minara: Minara) -> None:
    told = await answers(minara, "/v1/orders", ORDER, "order-key")
    assert [answer.status_code for answer in told] == [200] * 4
    assert len({answer.text for answer in told}) == 1
    assert "pending_action" in told[0].text
    assert len(await minara.rows("tools", "pending_actions")) == 1


async def test_text_that_no_database_holds_is_refused_or_taken_but_never_breaks(
    minara: Minara,
) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        for path in ("/v1/sessions/a%00b", "/v1/approvals/a%00b", "/v1/audit?turn_id=a%00b"):
            assert (await http.get(path)).status_code < 500, path
        assert (await http.post("/v1/sessions", json={"title": "a\u0000b"})).status_code < 500
