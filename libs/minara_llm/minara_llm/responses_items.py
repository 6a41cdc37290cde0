"""The output items of one Responses stream, and which event speaks of which.

Events name an item by its place, its id, or a call's id; the last event repeats all of them. Some
servers leave some of these out, or count differently at the end: yet an item is told once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minara_llm.clean_text import PairJoiner, cleaned
from minara_llm.wire_values import id_of, text_of

CALL, MESSAGE, REASONING = "function_call", "message", "reasoning"

Body = dict[str, Any]


@dataclass(slots=True, eq=False)
class Item:
    """One output item while it arrives. `text` is what its fragments make: words or arguments;
    `content` is what is kept of it once it is complete. `is_cut`: the server says it is not whole.
    """

    kind: str
    index: int | None = None
    item_id: str = ""
    call_id: str = ""
    content: Body = field(default_factory=dict[str, Any])
    text: str = ""
    is_complete: bool = False
    is_cut: bool = False
    joiner: PairJoiner = field(default_factory=PairJoiner)

    @property
    def arguments(self) -> str:
        return cleaned(self.text) or "{}"


class Items:
    """All items so far."""

    def __init__(self) -> None:
        self._all: list[Item] = []

    def ordered(self) -> list[Item]:
        """As the answer has them; those without a place last."""
        return sorted(self._all, key=lambda item: (item.index is None, item.index or 0))

    def begun(self, event: Any) -> Item:
        """The item that the event begins."""
        told, index = event.item, _index_of(event)
        known = self._of_ids(told)
        if known is None:
            open_one = self._open(text_of(told.type), index)
            # A place alone is no proof: some servers give every item the same.
            known = None if open_one is None or _has_other_ids(open_one, told) else open_one
        return self._named(known or self._new(told.type, index), told)

    def grown(self, kind: str, event: Any) -> Item:
        """The item of a fragment."""
        item_id, index = id_of(getattr(event, "item_id", None)), _index_of(event)
        known = next((i for i in self._all if item_id and i.item_id == item_id), None)
        if known is None or known.kind != kind:
            known = self._open(kind, index) or self._new(kind, index)
        known.item_id = known.item_id or item_id
        return known

    def done(self, event: Any) -> Item:
        """The item that the event says is whole; one that already was is returned as it is."""
        told, index = event.item, _index_of(event)
        known = self._of_ids(told) or self._open(text_of(told.type), index, told)
        if known is None:
            known = next((i for i in self._all if _is_told_again(i, told, index)), None)
        return self._named(known or self._new(told.type, index), told)

    def settled(self, output: Sequence[Any]) -> list[tuple[Item, Any]]:
        """The items of the last event, each with what it says of it: by their ids, else in their
        order. Their order is the answer's."""
        found = [self._of_ids(told) for told in output]
        left = [item for item in self._all if not any(item is each for each in found)]
        pairs: list[tuple[Item, Any]] = []
        for known, told in zip(found, output, strict=True):
            item = known or next((i for i in left if _may_be(i, told)), None)
            if item is None:
                item = self._new(told.type, None)
            left = [other for other in left if other is not item]
            pairs.append((self._named(item, told), told))
        for index, (item, _) in enumerate(pairs):
            item.index = index
        return pairs

    def drop_calls(self, kept: Sequence[Item] = ()) -> None:
        """Forget all calls but those that are kept."""
        self._all = [
            item for item in self._all if item.kind != CALL or any(item is each for each in kept)
        ]

    def _of_ids(self, told: Any) -> Item | None:
        item_id, call_id = id_of(getattr(told, "id", None)), _call_id(told)
        for item in self._all:
            is_same = (item_id and item.item_id == item_id) or (call_id and item.call_id == call_id)
            if is_same and item.kind == told.type:
                return item
        return None

    def _open(self, kind: str, index: int | None, told: Any = None) -> Item | None:
        """The newest item at a place, or at any if there is none, that is not whole yet."""
        call_id = _call_id(told)
        for item in reversed(self._all):
            is_there = index is None or item.index is None or item.index == index
            is_other = call_id and item.call_id and item.call_id != call_id
            if item.kind == kind and is_there and not item.is_complete and not is_other:
                return item
        return None

    def _new(self, kind: str, index: int | None) -> Item:
        made = Item(text_of(kind), index)
        self._all.append(made)
        return made

    def _named(self, item: Item, told: Any) -> Item:
        item.item_id = item.item_id or id_of(getattr(told, "id", None))
        item.call_id = item.call_id or _call_id(told)
        return item


def _index_of(event: Any) -> int | None:
    index = getattr(event, "output_index", None)
    return index if isinstance(index, int) else None


def _call_id(told: Any) -> str:
    return id_of(getattr(told, "call_id", None))


def _has_other_ids(item: Item, told: Any) -> bool:
    item_id, call_id = id_of(getattr(told, "id", None)), _call_id(told)
    return bool(
        (item_id and item.item_id and item.item_id != item_id)
        or (call_id and item.call_id and item.call_id != call_id)
    )


def _is_told_again(item: Item, told: Any, index: int | None) -> bool:
    return (
        item.kind == told.type
        and index is not None
        and item.index == index
        and not _has_other_ids(item, told)
    )


def _may_be(item: Item, told: Any) -> bool:
    """Whether an item may be the one told at the end under ids that are not its own. Two calls are
    two, unless they say the same: better one too few than one twice."""
    if item.kind != told.type:
        return False
    if item.kind != CALL or not item.is_complete or not _has_other_ids(item, told):
        return True
    return item.content.get("name") == told.name and item.text == told.arguments
