"""A provider on loopback: three APIs at one port, with a real one's rules, caches and faults."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from minara_core.clock import Clock
from minara_llm.model import ModelRequest
from minara_llm.wire import chat_api, messages_api, responses_api
from minara_llm.wire.bodies import (
    Api,
    Body,
    Refusal,
    Refused,
    as_text,
    dump,
    error_body,
    inner,
)
from minara_llm.wire.brain import Answer, Brain, ScriptEnded
from minara_llm.wire.cache import (
    AutomaticCache,
    CacheSeen,
    MarkedCache,
    Prompt,
    PromptBlock,
)
from minara_llm.wire.chat_checks import check_chat
from minara_llm.wire.doors import check_key, model_list, read_body
from minara_llm.wire.faults import Fault, Instead
from minara_llm.wire.frames import Frame, FrameKind, Ids, Telling, counted
from minara_llm.wire.http import LoopbackServer, Part, Reply, Seen
from minara_llm.wire.memory import Memory
from minara_llm.wire.messages_checks import check_messages
from minara_llm.wire.messages_prompt import messages_prompt, messages_view
from minara_llm.wire.models import WIRE_MODELS, WireModel, model_named
from minara_llm.wire.openai_prompts import chat_prompt, chat_view, responses_prompt, responses_view
from minara_llm.wire.refusals import overflow
from minara_llm.wire.responses_checks import check_responses
from minara_llm.wire.signatures import Signer

_PATHS = MappingProxyType(
    {"/messages": Api.MESSAGES, "/chat/completions": Api.CHAT, "/responses": Api.RESPONSES}
)
_JSON = MappingProxyType({"content-type": "application/json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, and what came of it. `blocks` is the whole prompt in the order in which it is
    cached, without cache marks; it is empty for a request that was not understood."""

    seen: Seen
    api: Api
    model: str = ""
    is_stream: bool = False
    blocks: tuple[PromptBlock, ...] = ()
    cache: CacheSeen | None = None
    answer_id: str = ""
    refusal: Refusal | None = None
    faults: tuple[Fault, ...] = ()

    @property
    def texts(self) -> list[str]:
        """The prompt's blocks as text; equal text is equal bytes."""
        return [f"{block.part} {block.text}" for block in self.blocks]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request that was understood."""

    api: Api
    body: Body
    model: WireModel
    prompt: Prompt
    is_stream: bool


class Provider(LoopbackServer):
    """Answers as its brain says, refuses what a real provider refuses, and meets the faults it is
    told to meet. `exchanges` keeps what came of each question, in order.

    `is_compatible`: Chat Completions is that of a server which only follows OpenAI's, whatever the
    model. `api_key` is the only key it takes; empty takes any. `name` goes into ids, so that two
    servers never give the same one. `broken` has what the brain could not answer.
    """

    def __init__(
        self,
        brain: Brain,
        clock: Clock,
        *,
        models: Sequence[WireModel] = WIRE_MODELS,
        api_key: str = "",
        is_compatible: bool = False,
        name: str = "wire",
        signing_key: bytes = b"wire",
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        super().__init__(self._reply)
        self.exchanges: list[Exchange] = []
        self.broken: list[Exception] = []
        self.brain = brain
        self._clock = clock
        self._models = tuple(models)
        self._api_key = api_key
        self._is_compatible = is_compatible
        self._ids = Ids(name)
        self._memory = Memory(Signer(signing_key))
        self._marked = MarkedCache(clock)
        self._automatic = AutomaticCache(clock)
        self._next: deque[tuple[Fault, ...]] = deque()
        self._always: tuple[Fault, ...] = ()
        self._texts: dict[str, str] = {}
        self._on_exchange = on_exchange

    def meet(self, *faults: Fault) -> None:
        """The next question that has none yet meets these, all at once."""
        self._next.append(faults)

    def always(self, *faults: Fault) -> None:
        """Every question meets these that has none of its own; none ends that."""
        self._always = faults

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    async def _reply(self, seen: Seen) -> Reply:
        path = seen.path.partition("?")[0]
        if seen.method == "GET" and path.endswith("/models"):
            return self._model_list(seen)
        api = next((api for end, api in _PATHS.items() if path.endswith(end)), None)
        if api is None or seen.method != "POST":
            missing = Refusal(status=404, kind="not_found_error", message=f"{path} is not here")
            return _refusing(Api.CHAT, missing, {})
        faults = self._next.popleft() if self._next else self._always
        if not all(fault.has_head for fault in faults):
            self._keep(Exchange(seen=seen, api=api, faults=faults))
            return Reply(parts=_sent(faults, []), has_head=False)
        try:
            for fault in faults:
                if (instead := fault.instead(api)) is not None:
                    return self._refuse(seen, api, instead, faults)
            asked = self._understood(seen, api)
        except Refused as refused:
            instead = Instead(refusal=refused.refusal, headers={})
            return self._refuse(seen, api, instead, faults)
        return await self._answered(seen, asked, faults)

    def _refuse(self, seen: Seen, api: Api, instead: Instead, faults: tuple[Fault, ...]) -> Reply:
        self._keep(Exchange(seen=seen, api=api, refusal=instead.refusal, faults=faults))
        return _refusing(api, instead.refusal, instead.headers)

    def _understood(self, seen: Seen, api: Api) -> _Asked:
        """Raises Refused as the provider would."""
        check_key(seen, api, self._api_key)
        body = read_body(seen)
        model = self._model(as_text(body.get("model"), "model"), api)
        match api:
            case Api.MESSAGES:
                check_messages(body, model, self._memory)
                prompt = messages_prompt(body)
            case Api.CHAT:
                check_chat(body, model)
                prompt = chat_prompt(body)
            case Api.RESPONSES:
                check_responses(body, model, self._memory)
                prompt = responses_prompt(body)
        if prompt.tokens > model.context_window:
            raise Refused(overflow(api, prompt.tokens, model.context_window))
        is_stream = body.get("stream") is True
        return _Asked(
            api=api, body=body, model=model, prompt=self._shared(prompt), is_stream=is_stream
        )

    async def _answered(self, seen: Seen, asked: _Asked, faults: tuple[Fault, ...]) -> Reply:
        try:
            answer = await self.brain.answer(_VIEWS[asked.api](asked.body))
        except (ScriptEnded, AssertionError) as error:
            self.broken.append(error)
            refusal = Refusal(status=500, kind="api_error", message=str(error))
            return self._refuse(seen, asked.api, Instead(refusal=refusal, headers={}), faults)
        cache = self._accounted(asked)
        telling = self._telling(asked, answer, cache, faults)
        frames: Sequence[Frame]
        if asked.is_stream:
            frames = _STREAMS[asked.api](telling)
        else:
            frames = [Frame(kind=FrameKind.WHOLE, body=_WHOLES[asked.api](telling))]
        self._memory.take(asked.api, asked.model.name, telling.answer_id, asked.prompt, frames)
        for fault in faults:
            frames = fault.told(asked.api, frames)
        self._keep(
            Exchange(
                seen=seen,
                api=asked.api,
                model=asked.model.name,
                is_stream=asked.is_stream,
                blocks=asked.prompt.blocks,
                cache=cache,
                answer_id=telling.answer_id,
                faults=faults,
            )
        )
        headers = {"request-id": "req_wire", "x-request-id": "req_wire"}
        return Reply(
            parts=_sent(faults, [frame.sent for frame in frames]),
            headers=headers if asked.is_stream else {**headers, **_JSON},
        )

    def _accounted(self, asked: _Asked) -> CacheSeen:
        if asked.api is Api.MESSAGES:
            return self._marked.take(asked.prompt, asked.model.shortest_cacheable)
        return self._automatic.take(asked.prompt)

    def _telling(
        self, asked: _Asked, answer: Answer, cache: CacheSeen, faults: tuple[Fault, ...]
    ) -> Telling:
        body = asked.body
        shapes = [fault.shape for fault in faults if fault.shape is not None]
        telling = Telling(
            answer=answer,
            model=str(body["model"]),
            answer_id=self._ids.next(_ID_PREFIXES[asked.api]),
            ids=self._ids,
            signer=self._memory.signer,
            cache=cache,
            output_tokens=counted(answer),
            created=int(self._clock.now().timestamp()),
            asked=body,
        )
        if shapes:
            telling = replace(telling, shape=shapes[-1])
        return replace(telling, **self._extras(asked))

    def _extras(self, asked: _Asked) -> Body:
        """What an API's request asks for, or has by its nature."""
        body = asked.body
        match asked.api:
            case Api.MESSAGES:
                thinking = inner(body, "thinking")
                previous = inner(body, "diagnostics").get("previous_message_id")
                miss = self._memory.miss_reason(previous, asked.prompt)
                return {
                    "thinks": thinking.get("type") in {"adaptive", "enabled"},
                    "shows_thinking": thinking.get("display") != "omitted",
                    "diagnostics": {"cache_miss_reason": miss} if miss else None,
                }
            case Api.CHAT:
                options = inner(body, "stream_options")
                return {
                    "shows_thinking": not asked.model.is_native,
                    "has_usage_chunk": options.get("include_usage") is True,
                }
            case Api.RESPONSES:
                reasoning = inner(body, "reasoning")
                return {
                    "thinks": reasoning.get("effort") != "none",
                    "shows_thinking": bool(reasoning.get("summary")),
                }

    def _model(self, name: str, api: Api) -> WireModel:
        found = model_named(self._models, name)
        if found is not None and (api is not Api.MESSAGES or found.name.startswith("claude")):
            if self._is_compatible and api is Api.CHAT:
                return replace(found, is_native=False, has_no_effort_with_tools=False)
            return found
        if api is Api.MESSAGES:
            raise Refused(Refusal(status=404, kind="not_found_error", message=f"model: {name}"))
        raise Refused(
            Refusal(
                status=404,
                kind="invalid_request_error",
                message=f"The model `{name}` does not exist or you do not have access to it.",
                code="model_not_found",
            )
        )

    def _model_list(self, seen: Seen) -> Reply:
        is_messages = "anthropic-version" in seen.headers
        api = Api.MESSAGES if is_messages else Api.CHAT
        try:
            check_key(seen, api, self._api_key)
        except Refused as refused:
            return _refusing(api, refused.refusal, {})
        body = model_list(api, self._models)
        return Reply(parts=(dump(body).encode(),), headers=_JSON)

    def _keep(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        if self._on_exchange is not None:
            self._on_exchange(exchange)

    def _shared(self, prompt: Prompt) -> Prompt:
        """The same prompt with texts that earlier ones hold already: sessions repeat themselves."""
        return replace(
            prompt,
            blocks=tuple(
                replace(block, text=self._texts.setdefault(block.text, block.text))
                for block in prompt.blocks
            ),
        )


def _sent(faults: Sequence[Fault], parts: Sequence[Part]) -> tuple[Part, ...]:
    for fault in faults:
        parts = fault.sent(parts)
    return tuple(parts)


def _refusing(api: Api, refusal: Refusal, headers: Body) -> Reply:
    return Reply(
        status=refusal.status,
        headers={**_JSON, "request-id": "req_wire", **headers},
        parts=(dump(error_body(api, refusal)).encode(),),
    )


_VIEWS: MappingProxyType[Api, Callable[[Body], ModelRequest]] = MappingProxyType(
    {Api.MESSAGES: messages_view, Api.CHAT: chat_view, Api.RESPONSES: responses_view}
)
_STREAMS: MappingProxyType[Api, Callable[[Telling], list[Frame]]] = MappingProxyType(
    {
        Api.MESSAGES: messages_api.messages_stream,
        Api.CHAT: chat_api.chat_stream,
        Api.RESPONSES: responses_api.responses_stream,
    }
)
_WHOLES: MappingProxyType[Api, Callable[[Telling], Body]] = MappingProxyType(
    {
        Api.MESSAGES: messages_api.messages_whole,
        Api.CHAT: chat_api.chat_whole,
        Api.RESPONSES: responses_api.responses_whole,
    }
)
_ID_PREFIXES = MappingProxyType(
    {Api.MESSAGES: "msg_01", Api.CHAT: "chatcmpl-", Api.RESPONSES: "resp_"}
)
