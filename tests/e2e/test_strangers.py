"""What is somebody's own is nobody else's: a stranger who names it finds nothing and leaves
nothing."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from minara.workspace.v1 import session_service_pb2 as session_pb
from minara.workspace.v1 import session_service_pb2_grpc as session_grpc
from minara_core.clock import SystemClock
from minara_core.ids import RandomIds, turn_id_for
from minara_core.taxonomy import Scope
from minara_gateway.client import ProblemError
from minara_runtime.channels import with_grant
from minara_runtime.grants import GrantSigner
from minara_runtime.keys import KeyPair
from support.installations import new_person
from support.minara import Minara, finish_reason

HELLO = {"message": "price of BTC"}
NAMED_IN_THE_BODY: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat", HELLO),
    ("/v1/chat/stream", HELLO),
    ("/v1/chat/stream", HELLO | {"double_texting": "interject"}),
    ("/v1/chat/prompt", HELLO),
    ("/v1/chat/interject", HELLO),
    ("/v1/chat/interrupt", {}),
]
NAMED_IN_THE_PATH: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "", None),
    ("GET", "/turns", None),
    ("POST", ":refresh", None),
    ("GET", "/goal", None),
    ("POST", "/goal", {"text": "know ETH"}),
    ("POST", "/goal:pause", None),
    ("POST", "/goal:resume", None),
    ("POST", "/goal:clear", None),
    ("POST", "/goal:continue", {}),
]


@pytest.fixture
async def stranger(minara: Minara) -> AsyncGenerator[Minara]:
    """Another person of the same installation, who may do everything with their own."""
    person = await new_person(minara.installation)
    yield person
    await person.aclose()


async def every_route(person: Minara, session_id: str) -> list[tuple[str, int, str]]:
    """What each route that names a session answers about this one."""
    asked = [("POST", path, body | {"session_id": session_id}) for path, body in NAMED_IN_THE_BODY]
    asked += [
        (method, f"/v1/sessions/{session_id}{step}", body)
        for method, step, body in NAMED_IN_THE_PATH
    ]
    answers: list[tuple[str, int, str]] = []
    headers = {"Authorization": f"Bearer {person.token}"}
    async with person.http(**headers) as http:
        for number, (method, path, body) in enumerate(asked):
            key = {"Idempotency-Key": f"{session_id}:{number}"}
            answer = await http.request(method, path, json=body, headers=key)
            answers.append((f"{method} {path}", answer.status_code, answer.json().get("reason")))
    return answers


def is_unknown(answers: list[tuple[str, int, str]]) -> bool:
    known = [answer for answer in answers if answer[1:] != (404, "SESSION_NOT_FOUND")]
    assert not known
    return True


async def has_left_nothing(person: Minara, session_id: str) -> bool:
    return not (
        await person.tables_with("orchestrator", person.user_id)
        or await person.tables_with("workspace", person.user_id)
        or await person.tables_with("tools", person.user_id)
        or await person.tables_with("gateway", f"{session_id}:")
    )


async def test_a_strangers_session_is_not_found_and_stays_its_owners(
    minara: Minara, stranger: Minara
) -> None:
    await minara.say("price of BTC")
    assert is_unknown(await every_route(stranger, minara.session_id))
    assert await has_left_nothing(stranger, minara.session_id)
    for _ in range(2):
        assert finish_reason(await minara.say("price of BTC")) == "stop"


async def test_a_list_of_a_strangers_session_is_empty(minara: Minara, stranger: Minara) -> None:
    await minara.say("buy $50 of ETH")
    of_it = f"session_id={minara.session_id}"
    for person, is_empty in ((minara, False), (stranger, True)):
        waiting = await person.client.call("GET", f"/v1/approvals?{of_it}")
        assert (waiting["pending_actions"] == []) is is_empty
        audited = await person.client.call("GET", f"/v1/audit?{of_it}")
        assert (audited["audit_records"] == []) is is_empty


async def test_a_session_that_is_yet_to_be_made_is_its_owners_already(
    minara: Minara, stranger: Minara
) -> None:
    coming = turn_id_for(minara.user_id, "session:a-key")
    assert is_unknown(await every_route(stranger, coming))
    assert is_unknown(await every_route(minara, coming))
    assert await has_left_nothing(stranger, coming)
    minara.client.set_header("Idempotency-Key", "a-key")
    assert finish_reason(await minara.say("price of BTC")) == "stop"
    assert minara.session_id == coming


async def test_a_session_id_that_another_person_took_is_refused_clearly(
    minara: Minara, stranger: Minara, partner: KeyPair
) -> None:
    """Over HTTP nobody chooses an id; an internal client does."""
    taken = turn_id_for(minara.user_id, "session:a-key")
    signer = GrantSigner(partner, SystemClock(), RandomIds())
    await session_grpc.SessionServiceStub(minara.channel("workspace")).CreateSession(
        session_pb.CreateSessionRequest(request_id=taken),
        metadata=with_grant(signer.request(user_id=stranger.user_id, scopes=[Scope.CHAT])),
    )
    minara.client.set_header("Idempotency-Key", "a-key")
    asked: list[tuple[str, dict[str, Any]]] = [("/v1/sessions", {}), ("/v1/chat", HELLO)]
    for path, body in asked:
        with pytest.raises(ProblemError) as refused:
            await minara.client.call("POST", path, body)
        assert (refused.value.status, refused.value.reason) == (404, "SESSION_NOT_FOUND")
    assert not await minara.rows("orchestrator", "turns")


@pytest.mark.parametrize("session_id", ["%00", "%2e%2e", "x" * 300, "%F0%9F%90%9F"])
async def test_what_is_no_sessions_id_breaks_nothing(minara: Minara, session_id: str) -> None:
    async with minara.http(Authorization=f"Bearer {minara.token}") as http:
        for step in ("", "/goal", "/turns"):
            answer = await http.get(f"/v1/sessions/{session_id}{step}")
            told = (answer.status_code, answer.json()["reason"])
            assert told in {(404, "SESSION_NOT_FOUND"), (400, "REQUEST_INVALID")}
