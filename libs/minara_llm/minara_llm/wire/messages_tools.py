"""What Anthropic's Messages API demands of calls, their results, and the thinking before them.

Messages here are merged: no two neighbours have one role.
"""

from collections.abc import Sequence

from minara_llm.wire.bodies import Body, inner, invalid, require
from minara_llm.wire.memory import Memory
from minara_llm.wire.models import WireModel


def check_pairs(messages: Sequence[Body], *, has_tools: bool) -> None:
    """Each call has its result at the head of the next message, and each result its call."""
    seen: set[str] = set()
    waiting: list[str] = []
    for n, message in enumerate(messages):
        blocks: list[Body] = message["content"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        leading = _leading(blocks)
        if waiting:
            answered = {block["tool_use_id"] for block in leading}
            missing = [call_id for call_id in waiting if call_id not in answered]
            require(
                not missing,
                f"messages.{n - 1}: `tool_use` ids were found without `tool_result` blocks"
                f" immediately after: {', '.join(missing)}. Each `tool_use` block must have a"
                " corresponding `tool_result` block in the next message.",
            )
        _check_results(results, waiting, n)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        repeated = len(set(waiting)) < len(waiting) or seen & set(waiting)
        require(not repeated, "messages: `tool_use` ids must be unique")
        seen.update(waiting)
        if (waiting or results) and not has_tools:
            raise invalid(
                "Requests which include `tool_use` or `tool_result` blocks must define tools"
            )
    require(
        not waiting,
        f"messages.{len(messages) - 1}: `tool_use` ids were found without `tool_result` blocks"
        f" immediately after: {', '.join(waiting)}.",
    )


def check_thinking(messages: Sequence[Body], body: Body, model: WireModel, memory: Memory) -> None:
    """Signed thinking comes back as it was, and stands before the calls that the model is in the
    middle of."""
    last = max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    for n, message in enumerate(messages):
        for k, block in enumerate(message["content"]):
            if not _is_genuine(block, memory):
                raise invalid(_changed(f"messages.{n}.content.{k}", block, is_last=n == last))
    thinking = inner(body, "thinking")
    if last < 0 or thinking.get("type") not in {"adaptive", "enabled"}:
        return
    blocks: list[Body] = messages[last]["content"]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    is_thought = any(memory.thought_calls.get(call_id) == model.name for call_id in calls)
    first = blocks[0]["type"]
    if is_thought and not any(_is_thinking(block) for block in blocks):
        raise invalid(
            f"messages.{last}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
            f" `{first}`. When `thinking` is enabled, a final `assistant` message must start with a"
            " thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks)."
        )


def _leading(blocks: Sequence[Body]) -> list[Body]:
    for n, block in enumerate(blocks):
        if block["type"] != "tool_result":
            return list(blocks[:n])
    return list(blocks)


def _check_results(results: Sequence[Body], waiting: Sequence[str], place: int) -> None:
    answered: set[str] = set()
    for k, block in enumerate(results):
        call_id = block["tool_use_id"]
        require(
            call_id in waiting,
            f"messages.{place}.content.{k}: unexpected `tool_use_id` found in `tool_result` blocks:"
            f" {call_id}. Each `tool_result` block must have a corresponding `tool_use` block in"
            " the previous message.",
        )
        require(
            call_id not in answered,
            f"messages.{place}.content.{k}: each tool_use must have a single result. Found multiple"
            f" `tool_result` blocks with id: {call_id}",
        )
        answered.add(call_id)


def _is_thinking(block: Body) -> bool:
    return block["type"] in {"thinking", "redacted_thinking"}


def _is_genuine(block: Body, memory: Memory) -> bool:
    match block["type"]:
        case "thinking":
            return memory.signer.is_of(
                str(block.get("signature", "")), str(block.get("thinking", ""))
            )
        case "redacted_thinking":
            return memory.signer.is_sealed(str(block.get("data", "")))
        case _:
            return True


def _changed(place: str, block: Body, *, is_last: bool) -> str:
    if is_last and block.get("signature"):
        return (
            f"{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message"
            " cannot be modified. These blocks must remain as they were in the original response."
        )
    return f"{place}: Invalid `signature` in `{block['type']}` block"
