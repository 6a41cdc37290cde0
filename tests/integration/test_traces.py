"""One turn over five processes is one trace: a tree with one root, whose spans say what happened
and none of what was said."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from minara_core.errors import MinaraError
from minara_gateway.client import GatewayClient
from minara_gateway.main import TOKEN_FILE
from support.cluster import SERVICES, Cluster, a_cluster
from support.eventually import eventually
from support.nursery import Nursery
from support.otlp import ERROR, ReceivedSpan, Receiver, a_receiver
from support.process import minara

SAID = "plugh"
"""A word of the person's, which must be in no span."""
LAST = ("POST /v1/chat", "RunTurn", "CommitTurn", "OpenTurn", "SelectSkills")
AGENT = "invoke_agent minara"
CONFIRM = "minara.tools.v1.ApprovalService/ConfirmAction"
SERVER = 2
CLIENT = 3
CLOSING_SECONDS = 4.0
"""Two for the collector, and two for a busy machine."""


@dataclass
class House:
    """Five processes, their collector, and a person."""

    cluster: Cluster
    receiver: Receiver
    client: GatewayClient

    async def say(self, message: str) -> str:
        """Say it in a conversation of its own; the turn's id."""
        reply = await self.client.call("POST", "/v1/chat", {"message": message})
        return str(reply["turn_id"])

    async def answers(self) -> bool:
        """Whether a first turn goes through: channels that were made early may still wait."""
        try:
            await self.say("hello")
        except MinaraError:
            return False
        return True

    async def trace(self, turn_id: str) -> tuple[ReceivedSpan, ...]:
        return await self.receiver.trace_of(turn_id, until=is_whole)


def is_whole(spans: Sequence[ReceivedSpan]) -> bool:
    """Whether all have come: each service sends its own, now and then."""
    names = {span.name for span in spans}
    return all(any(name.endswith(last) for name in names) for last in LAST)


@asynccontextmanager
async def a_house(nursery: Nursery, folder: Path, **environment: str) -> AsyncGenerator[House]:
    async with a_receiver() as receiver:
        variables = {"MINARA_OTLP_ENDPOINT": receiver.endpoint} | environment
        async with a_cluster(nursery, folder, environment=variables) as cluster:
            token = (cluster.data_dir / TOKEN_FILE).read_text("ascii").strip()
            client = GatewayClient.over_url(f"http://{cluster.gateways()[0]}", token)
            try:
                house = House(cluster, receiver, client)
                await eventually(house.answers, timeout=20, every=0.2)
                yield house
            finally:
                await client.aclose()


def named(spans: Sequence[ReceivedSpan], name: str) -> ReceivedSpan:
    """The span of this name, or of this RPC, or whose name begins with it and a space."""
    found = [
        span
        for span in spans
        if span.name == name or span.name.endswith(f"/{name}") or span.name.startswith(f"{name} ")
    ]
    assert len(found) == 1, (name, sorted(span.name for span in spans))
    return found[0]


def path_to(spans: Sequence[ReceivedSpan], span: ReceivedSpan) -> list[str]:
    """The names from the first span that is here down to this one; of RPCs their methods."""
    by_id = {one.span_id: one for one in spans}
    steps = [span]
    while steps[-1].parent_id in by_id:
        steps.append(by_id[steps[-1].parent_id])
    return [str(step.attributes.get("rpc.method", step.name)) for step in reversed(steps)]


def assert_a_tree(spans: Sequence[ReceivedSpan]) -> None:
    ids = {span.span_id for span in spans}
    roots = [span.name for span in spans if not span.parent_id]
    assert len(roots) == 1, roots
    assert [span.name for span in spans if span.parent_id and span.parent_id not in ids] == []
    assert len({span.trace_id for span in spans}) == 1


@pytest.mark.timeout(180)
async def test_one_trace_joins_the_spans_of_all_five_services(
    nursery: Nursery, tmp_path: Path
) -> None:
    async with a_house(nursery, tmp_path) as house:
        reply = await house.client.call("POST", "/v1/chat", {"message": f"price of BTC, {SAID}"})
        turn_id, session_id = reply["turn_id"], reply["session_id"]
        spans = await house.trace(turn_id)
        assert_a_tree(spans)
        assert {span.service for span in spans} == set(SERVICES)
        assert len({span.instance for span in spans}) == len(SERVICES)
        assert all(span.resource["service.version"] for span in spans)
        root = named(spans, "POST /v1/chat")
        assert (root.service, root.kind, root.parent_id) == ("gateway", SERVER, "")
        assert root.attributes["http.response.status_code"] == 200
        assert root.attributes["http.route"] == "/v1/chat"

        agent = ["POST /v1/chat", "minara.orchestrator.v1.AgentService/RunTurn", AGENT]
        for method in ("PrepareTurn", "SelectSkills", "OpenTurn", "CommitTurn", "ExecuteTools"):
            served = named(spans, method)
            assert path_to(spans, served) == [*agent, served.name]
        tool = [*agent, "minara.tools.v1.ToolService/ExecuteTools", "execute_tool get_price"]
        assert path_to(spans, named(spans, "gates")) == [*tool, "gates"]

        _assert_what_spans_say(spans, turn_id, session_id)
        _assert_nothing_said(house)


def _assert_what_spans_say(spans: Sequence[ReceivedSpan], turn_id: str, session_id: str) -> None:
    agent = named(spans, "invoke_agent").attributes
    assert agent["gen_ai.operation.name"] == "invoke_agent"
    assert agent["gen_ai.conversation.id"] == agent["minara.session_id"] == session_id
    assert agent["minara.turn_id"] == turn_id
    assert (agent["minara.outcome"], agent["minara.finish_reason"]) == ("completed", "stop")
    assert (agent["minara.steps"], agent["minara.tool_calls"], agent["minara.denials"]) == (2, 1, 0)
    chats = [span for span in spans if span.name.startswith("chat ")]
    assert len(chats) == 2
    for chat in chats:
        assert chat.kind == CLIENT
        assert chat.attributes["gen_ai.provider.name"] == "offline"
        assert chat.attributes["gen_ai.request.model"]
        assert chat.attributes["gen_ai.conversation.id"] == session_id
        assert chat.attributes["minara.prompt.characters"] > 0
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        assert agent[name] == sum(chat.attributes[name] for chat in chats)
    tool = named(spans, "execute_tool").attributes
    assert tool["gen_ai.tool.name"] == "get_price"
    assert tool["gen_ai.tool.call.id"] == "1.0"
    assert tool["minara.outcome"] == "success"
    assert named(spans, "gates").attributes["minara.outcome"] == "run"
    for rpc in ("PrepareTurn", "SelectSkills", "OpenTurn", "ExecuteTools", "CommitTurn"):
        served = named(spans, rpc).attributes
        assert served["minara.turn_id"] == turn_id
        assert served["rpc.system.name"] == "grpc"
        assert served["rpc.response.status_code"] == "OK"


def _assert_nothing_said(house: House) -> None:
    token = (house.cluster.data_dir / TOKEN_FILE).read_text("ascii").strip()
    for span in house.receiver.spans():
        assert SAID not in span.text
        assert token not in span.text


@pytest.mark.timeout(180)
async def test_money_and_denials_show_in_the_trace_and_so_does_a_callers_own_trace(
    nursery: Nursery, tmp_path: Path
) -> None:
    async with a_house(nursery, tmp_path) as house:
        bought = await house.client.call("POST", "/v1/chat", {"message": "buy $50 of ETH"})
        spans = await house.trace(bought["turn_id"])
        assert named(spans, "execute_tool").attributes["minara.outcome"] == "pending"
        assert named(spans, "gates").attributes["minara.outcome"] == "ask"
        assert named(spans, "stages").attributes["minara.outcome"] == "passed"

        trace_id, parent_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        house.client.set_header("traceparent", f"00-{trace_id}-{parent_id}-01")
        action = bought["pending_actions"][0]
        confirm = f"/v1/approvals/{action['pending_action_id']}:confirm"
        await house.client.call("POST", confirm, {"action_hash": action["action_hash"]})
        await house.client.call("POST", "/v1/trading:halt", {"reason": "enough"})
        denied = await house.say("buy $50 of ETH")
        spans = await house.trace(denied)
        assert {span.trace_id for span in spans} == {trace_id}
        roots = {span.name for span in spans if span.parent_id == parent_id}
        assert {"POST /v1/chat", "POST /v1/trading:halt"} <= roots
        sent = named(spans, "send")
        assert path_to(spans, sent)[-2:] == [CONFIRM, "send"]
        refused = next(span for span in spans if span.attributes.get("minara.outcome") == "denied")
        assert refused.attributes["minara.reason"] == "TRADING_HALTED"
        assert refused.attributes["minara.gate"] == "trading_state"
        assert refused.code != ERROR, "a denial is no error"


@pytest.mark.timeout(180)
async def test_five_processes_write_one_file_from_which_a_turn_is_shown(
    nursery: Nursery, tmp_path: Path
) -> None:
    async with a_house(nursery, tmp_path, MINARA_TRACE_SAMPLE="0") as house:
        turn_id = await house.say("price of BTC")
        done = await eventually_traced(house.cluster.data_dir, turn_id)
    shown = json.loads(done)
    assert {span["service"] for span in shown["spans"]} == set(SERVICES)
    assert house.receiver.spans() == (), "what is not sampled stays on this machine"


async def eventually_traced(data_dir: Path, turn_id: str) -> str:
    found: dict[str, Any] = {}

    def is_there() -> bool:
        done = minara(data_dir, "trace", turn_id, "--json")
        found["text"] = done.stdout
        return all(name in done.stdout for name in LAST)

    await eventually(is_there, timeout=20, every=0.5)
    return str(found["text"])


@pytest.mark.timeout(180)
async def test_what_was_said_is_in_the_trace_when_its_owner_wants_that(
    nursery: Nursery, tmp_path: Path
) -> None:
    async with a_house(nursery, tmp_path, MINARA_LOG_CONTENT="1") as house:
        spans = await house.trace(await house.say(f"price of BTC, {SAID}"))
        (first, *_) = sorted(
            (span for span in spans if span.name.startswith("chat ")),
            key=lambda span: span.attributes["minara.prompt.messages"],
        )
        assert SAID in first.attributes["gen_ai.input.messages"]
        assert "BTC" in named(spans, "execute_tool").attributes["gen_ai.tool.call.arguments"]


@pytest.mark.timeout(180)
async def test_a_dead_collector_neither_stops_turns_nor_holds_up_the_end(
    nursery: Nursery, tmp_path: Path
) -> None:
    async with a_house(nursery, tmp_path, MINARA_GRACE_SECONDS="2") as house:
        house.receiver.is_silent = True
        for _ in range(3):
            await house.say("price of BTC")
        await eventually(lambda: house.receiver.exports > 0, timeout=10)
        ended = await house.cluster.terminate()
    assert {name: end.code for name, end in ended.items()} == dict.fromkeys(ended, 0)
    assert max(end.seconds for end in ended.values()) < 2 + CLOSING_SECONDS
