"""How many calls each turn has made in this process, over all batches that run at once."""

from collections import OrderedDict

from minara_core.ids import TurnId

REMEMBERED_TURNS = 10_000


class CallCounts:
    """The ledger in the database counts what is recorded; this one counts what has begun, so that
    batches sent side by side share one budget."""

    def __init__(self) -> None:
        self._made: OrderedDict[TurnId, int] = OrderedDict()

    def made(self, turn_id: TurnId, recorded: int) -> int:
        """The calls of a turn, at least those recorded."""
        return max(recorded, self._made.get(turn_id, 0)) if turn_id else recorded

    def add(self, turn_id: TurnId, recorded: int) -> int:
        """Count one more; how many there are then."""
        made = self.made(turn_id, recorded) + 1
        if turn_id:
            self._made[turn_id] = made
            self._made.move_to_end(turn_id)
            if len(self._made) > REMEMBERED_TURNS:
                self._made.popitem(last=False)
        return made
