"""The boundary between reading and trading: text from outside never moves money by itself.

Once a turn has read something untrusted outside set `read`, a fund-moving call of that turn only
previews, and its preview tells what was read. Order inside the turn does not matter: the mark is
the turn's, not the call's.
"""

from minara_core.reasons import DenialReason
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.permission import Verdict
from minara_tools.domain.registry import ToolEntry

GATE = "boundary"


def marks_turn(entry: ToolEntry) -> bool:
    """Whether running this tool brings text from outside into the turn."""
    is_own = entry.tool_set in {"read", "turn"} and not entry.may_bring_outside_text
    return entry.untrusted_output and not is_own and not entry.is_fund_moving


def check_boundary(entry: ToolEntry, verdict: Verdict, read_sources: tuple[str, ...]) -> None:
    """Raises ToolCallBlockedError for a move that would run unasked after such reading."""
    if entry.is_fund_moving and read_sources and verdict is not Verdict.ASK:
        raise ToolCallBlockedError(
            DenialReason.ANALYSIS_TRADE_BOUNDARY,
            gate=GATE,
            message="this turn has read text from outside; a move needs a person's confirmation",
            metadata={"read": ", ".join(read_sources)},
        )
