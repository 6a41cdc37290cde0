"""What a provider remembers of its own answers, to check what comes back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from minara_llm.wire.bodies import Api, Body
from minara_llm.wire.cache import Prompt, common_blocks
from minara_llm.wire.frames import Frame, FrameKind
from minara_llm.wire.signatures import Signer


@dataclass(slots=True)
class Memory:
    """`thought_calls` has the model behind each call that was thought about before it was made;
    `reasoning_of` the reasoning item behind each call; `prompts` what each answer was given to."""

    signer: Signer
    thought_calls: dict[str, str] = field(default_factory=dict[str, str])
    reasoning_of: dict[str, str] = field(default_factory=dict[str, str])
    prompts: dict[str, Prompt] = field(default_factory=dict[str, Prompt])

    def take(
        self, api: Api, model: str, answer_id: str, prompt: Prompt, frames: Sequence[Frame]
    ) -> None:
        """Keep what has to come back of an answer, and what it was given to."""
        self.prompts[answer_id] = prompt
        if api is Api.MESSAGES:
            content = list(_content(frames))
            if any(block["type"] == "thinking" for block in content):
                calls = (block["id"] for block in content if block["type"] == "tool_use")
                self.thought_calls.update(dict.fromkeys(calls, model))
        elif api is Api.RESPONSES:
            thought = ""
            for item in _output(frames):
                if item["type"] == "reasoning":
                    thought = item["id"]
                elif item["type"] == "function_call" and thought:
                    self.reasoning_of[item["call_id"]] = thought

    def miss_reason(self, previous_id: str | None, prompt: Prompt) -> Body | None:
        """Why the cache could not go on from the request behind `previous_id`; None if it could,
        and without one."""
        if previous_id is None:
            return None
        before = self.prompts.get(previous_id)
        if before is None:
            return {"type": "previous_message_not_found"}
        name = _first_change(before, prompt)
        if name is None:
            return None
        if name == "unavailable":
            return {"type": name}
        same = common_blocks(before.blocks, prompt.blocks)
        missed = sum(block.tokens for block in before.blocks[same:])
        if name == "model_changed":
            missed = before.tokens
        return {"type": name, "cache_missed_input_tokens": missed}


def _first_change(before: Prompt, now: Prompt) -> str | None:
    if before.model != now.model:
        return "model_changed"
    for part in ("tools", "system"):
        if _texts(before, part) != _texts(now, part):
            return f"{part}_changed"
    said = _texts(before, "messages")
    if _texts(now, "messages")[: len(said)] != said:
        return "messages_changed"
    return None if before.settings == now.settings else "unavailable"


def _texts(prompt: Prompt, part: str) -> list[str]:
    return [block.text for block in prompt.blocks if block.part == part]


def _content(frames: Sequence[Frame]) -> Iterator[Body]:
    for frame in frames:
        if frame.kind is FrameKind.WHOLE:
            yield from frame.body["content"]
        elif frame.event == "content_block_start":
            yield frame.body["content_block"]


def _output(frames: Sequence[Frame]) -> Iterator[Body]:
    for frame in frames:
        if frame.kind is FrameKind.WHOLE:
            yield from frame.body["output"]
        elif frame.kind is FrameKind.LAST:
            yield from frame.body["response"]["output"]
