"""Bad input: a problem document with the right status and reason, and nothing stored."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.deployments import Deployments, persons_of
from support.minara import Embedded, Minara

UNKNOWN = "0190aaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa"


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def minara(
    deployment: str, deployments: Deployments, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Minara]:
    """One for the whole file: what is refused stores nothing, so the tests cannot meet."""
    async with persons_of(deployment, deployments, tmp_path_factory.mktemp("input")) as factory:
        yield await factory()


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(
    deployment: str, deployments: Deployments, tmp_path: Path
) -> AsyncGenerator[Minara]:
    """One for a test that stores something."""
    async with persons_of(deployment, deployments, tmp_path) as factory:
        yield await factory()


async def nothing_is_stored(minara: Minara) -> bool:
    return not (
        await minara.rows("workspace", "sessions")
        or await minara.rows("workspace", "turns")
        or await minara.rows("orchestrator", "turns")
    )


BODIES: list[tuple[str, Any, int, str]] = [
    ("empty message", {"message": ""}, 400, "MESSAGE_EMPTY"),
    ("white space", {"message": " \n\t "}, 400, "MESSAGE_EMPTY"),
    ("33 KB", {"message": "x" * 33_000}, 413, "MESSAGE_TOO_LARGE"),
    ("1 MB", {"message": "x" * 1_000_000}, 413, "BODY_TOO_LARGE"),
    ("no message", {}, 400, "REQUEST_INVALID"),
    ("wrong type", {"message": 7}, 400, "REQUEST_INVALID"),
    ("unknown field", {"message": "hi", "confirm": True}, 400, "REQUEST_INVALID"),
    ("unknown session", {"message": "hi", "session_id": UNKNOWN}, 404, "SESSION_NOT_FOUND"),
    ("session of no form", {"message": "hi", "session_id": "../x"}, 400, "REQUEST_INVALID"),
    ("unknown policy", {"message": "hi", "double_texting": "merge"}, 400, "REQUEST_INVALID"),
]


@pytest.mark.parametrize(
    ("body", "status", "reason"), [b[1:] for b in BODIES], ids=[b[0] for b in BODIES]
)
@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/stream"])
async def test_a_bad_body_is_a_problem_and_stores_nothing(
    minara: Minara, path: str, body: Any, status: int, reason: str
) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.post(path, json=body)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["reason"] == reason
    assert await nothing_is_stored(minara)


NOT_WHAT_THEY_SEEM: list[tuple[str, dict[str, Any]]] = [
    ("/v1/sessions/x/goal", {"text": "know ETH", "max_turns": True}),
    ("/v1/sessions/x/goal", {"text": "know ETH", "max_turns": "5"}),
    ("/v1/sessions/x/goal", {"text": "know ETH", "subgoals": "one"}),
    ("/v1/trading:halt", {"close_positions": 1}),
    ("/v1/trading:halt", {"cancel_protection": "no"}),
    ("/v1/operations/x:resolve", {"was_executed": "false", "evidence": "the venue says so"}),
]


@pytest.mark.parametrize(("path", "body"), NOT_WHAT_THEY_SEEM)
async def test_no_value_is_taken_for_one_of_another_kind(
    minara: Minara, path: str, body: dict[str, Any]
) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.post(path, json=body)
    assert (response.status_code, response.json()["reason"]) == (400, "REQUEST_INVALID")
    field = response.json()["metadata"]["field"]
    assert field in body


async def test_text_that_is_no_json_is_a_problem(minara: Minara) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.post(
            "/v1/chat", content=b'{"message": ', headers={"Content-Type": "application/json"}
        )
    assert response.status_code == 400
    assert response.json()["reason"] == "REQUEST_INVALID"


async def test_a_chunked_body_has_the_same_limit(minara: Minara) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(64):
            yield b"x" * 16_384

    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.post(
            "/v1/chat", content=chunks(), headers={"Content-Type": "application/json"}
        )
    assert response.status_code == 413
    assert response.json()["reason"] == "BODY_TOO_LARGE"


ROUTES = [
    ("GET", "/"),
    ("POST", "/v1/chat"),
    ("POST", "/v1/chat/stream"),
    ("GET", "/v1/chat/stream/resume?turn_id=x"),
    ("POST", "/v1/chat/interject"),
    ("POST", "/v1/chat/interrupt"),
    ("POST", "/v1/chat/prompt"),
    ("GET", "/v1/approvals"),
    ("GET", "/v1/approvals/x"),
    ("POST", "/v1/approvals/x:confirm"),
    ("POST", "/v1/approvals/x:reject"),
    ("POST", "/v1/approvals:confirmByCode"),
    ("POST", "/v1/approvals:rejectByCode"),
    ("GET", "/v1/sessions"),
    ("POST", "/v1/sessions"),
    ("GET", "/v1/sessions/x"),
    ("GET", "/v1/sessions/x/turns"),
    ("POST", "/v1/sessions/x:refresh"),
    ("GET", "/v1/sessions/x/goal"),
    ("POST", "/v1/sessions/x/goal"),
    ("POST", "/v1/sessions/x/goal:pause"),
    ("POST", "/v1/sessions/x/goal:resume"),
    ("POST", "/v1/sessions/x/goal:clear"),
    ("POST", "/v1/sessions/x/goal:continue"),
    ("GET", "/v1/trading"),
    ("POST", "/v1/trading:halt"),
    ("POST", "/v1/trading:resume"),
    ("POST", "/v1/trading:adopt"),
    ("POST", "/v1/operations/x:resolve"),
    ("GET", "/v1/limits"),
    ("PATCH", "/v1/limits"),
    ("GET", "/v1/addresses"),
    ("POST", "/v1/addresses"),
    ("DELETE", "/v1/addresses/x"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/x"),
    ("PUT", "/v1/models/chosen"),
    ("GET", "/v1/orders"),
    ("POST", "/v1/orders"),
    ("POST", "/v1/orders:cancel"),
    ("POST", "/v1/manual-actions"),
    ("GET", "/v1/tools"),
    ("GET", "/v1/audit"),
]
OPEN_ROUTES = [("GET", "/healthz"), ("GET", "/readyz")]


@pytest.mark.only("embedded", reason="it reads the table of an app in this process")
async def test_the_table_of_routes_is_whole(minara: Minara) -> None:
    assert isinstance(minara.installation, Embedded)
    paths: dict[str, dict[str, Any]] = minara.installation.engine.gateway.app.openapi()["paths"]
    served = {
        (method.upper(), re.sub(r"\{\w+\}", "x", path))
        for path, methods in paths.items()
        for method in methods
    }
    known = {(method, path.partition("?")[0]) for method, path in (*ROUTES, *OPEN_ROUTES)}
    assert served == known


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    ("header", "reason"),
    [("", "TOKEN_MISSING"), ("Bearer wrong", "TOKEN_INVALID"), ("Basic eDp5", "TOKEN_MISSING")],
)
async def test_no_route_answers_without_a_good_token(
    minara: Minara, method: str, path: str, header: str, reason: str
) -> None:
    headers = {"Authorization": header} if header else {}
    async with minara.http(**headers) as http:
        response = await http.request(method, path, json=None if method == "GET" else {})
    assert response.status_code == 401
    assert response.json()["reason"] == reason
    assert response.headers["www-authenticate"] == "Bearer"


async def test_health_and_readiness_are_the_only_open_doors(minara: Minara) -> None:
    async with minara.http() as http:
        assert (await http.get("/healthz")).json() == {"ok": True}
        assert (await http.get("/readyz")).json()["ready"] is True
        assert (await http.get("/docs")).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.2", ""])
async def test_a_foreign_host_is_refused(minara: Minara, host: str) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.get("/v1/sessions", headers={"Host": host})
    assert response.status_code == 403
    assert response.json()["reason"] == "HOST_FOREIGN"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_foreign_page_changes_nothing(minara: Minara, headers: dict[str, str]) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.post("/v1/chat", json={"message": "price of BTC"}, headers=headers)
    assert response.status_code == 403
    assert response.json()["reason"] == "ORIGIN_FOREIGN"
    assert await nothing_is_stored(minara)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_simple_cross_site_post_never_reaches_a_route(minara: Minara, kind: str) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.post(
            "/v1/chat", content=b'{"message":"buy $50 of ETH"}', headers={"Content-Type": kind}
        )
    assert response.status_code == 415
    assert response.json()["reason"] == "CONTENT_TYPE_UNSUPPORTED"
    assert await nothing_is_stored(minara)


async def test_our_own_page_may_post(fresh: Minara) -> None:
    async with fresh.http(Authorization=f"Bearer {fresh.token}") as http:
        response = await http.post(
            "/v1/chat",
            json={"message": "price of BTC"},
            headers={"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
        )
    assert response.status_code == 200


async def test_an_unknown_turn_is_not_found(minara: Minara) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        response = await http.get(f"/v1/chat/stream/resume?turn_id={UNKNOWN}")
    assert response.status_code == 404
    assert response.json()["reason"] == "TURN_NOT_FOUND"


async def test_secrets_in_a_message_reach_no_store(fresh: Minara) -> None:
    key = "sk-ant-api03-" + "A" * 40
    async with fresh.http(Authorization=f"Bearer {fresh.token}") as http:
        response = await http.post("/v1/chat", json={"message": f"my key is {key}, price of BTC"})
    assert response.json()["notices"]
    for service in ("workspace", "orchestrator", "tools", "skills"):
        assert await fresh.tables_with(service, key) == []
    assert await fresh.tables_with("workspace", "price of BTC") != []
