"""Orders, previews and refusals as lines for people; whoever prints them makes them harmless."""

from collections.abc import Iterator
from typing import Any, cast


def describe_orders(answer: dict[str, Any]) -> Iterator[str]:
    """Open orders, then the latest moves, each with the id that cancels or finds it."""
    resting = cast("list[dict[str, str]]", answer["open_orders"])
    yield f"open orders at {answer['venue']} ({str(answer['mode']).upper()}):"
    for one in resting:
        filled = f", {one['filled_quantity']} filled" if one["filled_quantity"] != "0" else ""
        yield (
            f"  {one['id']}  {one['side']} {one['quantity']} {one['instrument']} "
            f"at {one['limit_price']}{filled}"
        )
    if not resting:
        yield "  none"
    latest = cast("list[dict[str, str]]", answer["recent_moves"])
    if latest:
        yield "latest moves:"
    for one in latest:
        state = f"{one['state']} {one['end']}".strip()
        yield (
            f"  {one['time']}  {one['id']}  {one['kind']} {one['side']} {one['quantity']} "
            f"{one['instrument']}: {state}"
        )


def describe_answer(answer: dict[str, Any]) -> Iterator[str]:
    """What came of a move that a person filled in: its preview, or why there is none."""
    action = cast("dict[str, Any]", answer.get("pending_action", {}))
    for text in ("rendered_preview", "rendered_receipt"):
        if text in action:
            yield str(action[text])
    for refusal in ("denial", "failure"):
        if refusal in answer:
            yield f"{answer[refusal]['reason']}: {answer[refusal]['message']}"


def describe_halt(answer: dict[str, Any]) -> Iterator[str]:
    """What a halt found: what is still open at the venue, and the sales that wait for a yes."""
    for one in cast("list[dict[str, Any]]", answer.get("unsettled", [])):
        yield f"still open or not known: {one['rendered_receipt']}"
    for one in cast("list[dict[str, Any]]", answer.get("closing", [])):
        yield from describe_answer({"pending_action": one})
