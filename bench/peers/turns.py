"""Turns of other frameworks, each with a fake model of its own; run in .venv-peers.

    python bench/peers/turns.py NAME

A line with a number on standard input asks for that many turns; the answer is a line of JSON with
the milliseconds of each (`ms`) and of CPU for all (`cpu_ms`). One turn: a prompt, the model asks
for one tool, the tool runs, the model answers. Nothing is stored, audited, gated or served, and
tracing is off.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

Turn = Callable[[], Awaitable[str]]
QUESTION = "price of BTC"
ANSWER = "It is so."
ARGUMENTS = {"symbol": "BTC"}


def get_price(symbol: str) -> str:
    """The price of an asset in dollars."""
    return json.dumps({"symbol": symbol, "price": "64000"})


def _langchain_model() -> Any:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(messages[-1], ToolMessage):
                message = AIMessage(ANSWER)
            else:
                call = {"name": "get_price", "args": ARGUMENTS, "id": "1"}
                message = AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Model(messages=iter(()))


def _langchain_turn(agent: Any) -> Turn:
    async def turn() -> str:
        said = await agent.ainvoke({"messages": [{"role": "user", "content": QUESTION}]})
        return said["messages"][-1].content

    return turn


def langchain() -> Turn:
    from langchain.agents import create_agent

    return _langchain_turn(create_agent(_langchain_model(), [get_price]))


def langgraph() -> Turn:
    from langgraph.prebuilt import create_react_agent

    return _langchain_turn(create_react_agent(_langchain_model(), [get_price]))


def pydantic_ai() -> Turn:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, info: Any) -> Any:
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart(ANSWER)])
        return ModelResponse(parts=[ToolCallPart("get_price", ARGUMENTS)])

    agent = Agent(FunctionModel(answer), tools=[get_price])

    async def turn() -> str:
        return (await agent.run(QUESTION)).output

    return turn


def openai_agents() -> Turn:
    from agents import (
        Agent,
        Model,
        ModelResponse,
        Runner,
        Usage,
        function_tool,
        set_tracing_disabled,
    )
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    set_tracing_disabled(True)

    class Fake(Model):
        async def get_response(self, *given: Any, **options: Any) -> Any:
            items = options["input"] if "input" in options else given[1]
            if isinstance(items, str) or items[-1].get("type") != "function_call_output":
                said: Any = ResponseFunctionToolCall(
                    type="function_call",
                    call_id="1",
                    name="get_price",
                    arguments=json.dumps(ARGUMENTS),
                )
            else:
                text = ResponseOutputText(type="output_text", text=ANSWER, annotations=[])
                said = ResponseOutputMessage(
                    id="1", type="message", role="assistant", status="completed", content=[text]
                )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *given: Any, **options: Any) -> Any:
            raise NotImplementedError

    agent = Agent(name="bench", model=Fake(), tools=[function_tool(get_price)])

    async def turn() -> str:
        return (await Runner.run(agent, QUESTION)).final_output

    return turn


PEERS: dict[str, Callable[[], Turn]] = {
    "langchain": langchain,
    "langgraph": langgraph,
    "openai-agents": openai_agents,
    "pydantic-ai": pydantic_ai,
}


async def timed(turn: Turn, count: int) -> dict[str, Any]:
    """Milliseconds of each of `count` turns, and what they computed."""
    spent: list[float] = []
    cpu = time.process_time()
    for _ in range(count):
        begin = time.perf_counter()
        said = await turn()
        spent.append((time.perf_counter() - begin) * 1_000)
        assert said == ANSWER, said
    return {"ms": spent, "cpu_ms": (time.process_time() - cpu) * 1_000}


async def serve(name: str) -> None:
    """Answer until the input ends."""
    turn = PEERS[name]()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        sys.stdout.write(json.dumps(await timed(turn, int(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
