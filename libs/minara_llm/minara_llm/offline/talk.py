"""What the offline model does next in a turn: read, prepare orders, or answer."""

from collections.abc import Iterator

from minara_llm.offline.answer import is_simulated, join_parts, open_orders_of, tell_result
from minara_llm.offline.cancel import OPEN_ORDERS, resolved
from minara_llm.offline.phrases import Phrases
from minara_llm.offline.plan import Plan
from minara_llm.offline.steps import PlannedCall, PlannedCancel, Remark
from minara_llm.offline.turn import MadeCall, OfflineTurn

_OF_THE_LOOP = frozenset({"activate_skills", "ask_user"})
"""Tools of other models whose results say nothing to a person."""
_WITH_MORE = frozenset({"cannot", "help", "who", "greeting"})
"""Remarks after which it is told what can be asked for."""
_BY_RULES = frozenset({"cannot", "help", "who", "greeting", "continuation"})
"""Remarks with which it is told that rules alone answer."""
_OF_ORDERS = frozenset(
    {
        "which_side",
        "which_trade_asset",
        "which_amount",
        "which_unit",
        "which_limit",
        "unclear_amount",
        "no_share",
        "no_condition",
        "cannot_move",
        "continuation",
        "which_order",
    }
)
"""Remarks that ask for an order in better words: of no use while none is prepared."""


class OfflineTalk:
    """One request of a turn. `available` are the tools that may be called now. While `is_degraded`
    no order is prepared, and what other models have called is told as well."""

    def __init__(
        self,
        turn: OfflineTurn,
        plan: Plan,
        available: frozenset[str],
        phrases: Phrases,
        *,
        is_degraded: bool,
    ) -> None:
        self._turn = turn
        self._plan = plan
        self._available = available
        self._phrases = phrases
        self._is_degraded = is_degraded
        # Another model may have spoken before it failed; nobody knows of what.
        self._has_spoken = turn.has_spoken and not is_degraded

    def next_reads(self) -> list[PlannedCall]:
        """The planned readings that are to be made now."""
        return [call for call in self._plan.calls if not call.is_order and self._is_next(call)]

    def next_orders(self) -> list[PlannedCall]:
        """The order calls that are to be made once everything is read."""
        if self._is_degraded:
            return []
        planned = [self._order_of(step) for step in self._plan.steps]
        return [call for call in planned if call is not None and self._is_next(call)]

    def answer(self) -> str:
        """What is said now: all results and remarks that were not told, in the message's order."""
        parts = [] if self._has_spoken else [self._phrases["degraded"]] * self._is_degraded
        parts += [self._told(made) for made in self._foreign()]
        for step in self._plan.steps:
            match step:
                case PlannedCall():
                    parts += self._told_call(step)
                case PlannedCancel():
                    parts += self._told_cancel(step)
                case Remark():
                    parts += self._told_remark(step)
        if not self._has_spoken:
            parts += self._missing()
            if self._plan.is_analysis:
                parts += [*self._by_rules(), self._phrases["analysis"]]
        if any(is_simulated(made.envelope) for made in self._turn.made if self._is_new(made)):
            parts.append(self._phrases["simulated"])
        return join_parts(list(dict.fromkeys(parts)))

    def _is_next(self, call: PlannedCall) -> bool:
        return call.name in self._available and self._result_of(call) is None

    def _result_of(self, call: PlannedCall) -> MadeCall | None:
        return next((made for made in self._turn.made if made.answers(call)), None)

    def _order_of(self, step: PlannedCall | PlannedCancel | Remark) -> PlannedCall | None:
        if isinstance(step, PlannedCancel):
            found = self._resolved(step)
            return found if isinstance(found, PlannedCall) else None
        return step if isinstance(step, PlannedCall) and step.is_order else None

    def _resolved(self, step: PlannedCancel) -> PlannedCall | Remark | None:
        """None while the open orders are not known."""
        listed = self._result_of(OPEN_ORDERS)
        fields = open_orders_of(listed.envelope) if listed is not None else None
        return None if fields is None else resolved(step, fields)

    def _foreign(self) -> Iterator[MadeCall]:
        """Results of calls that this plan has not."""
        planned = [self._order_of(step) or step for step in self._plan.steps]
        for made in self._turn.made:
            is_ours = any(isinstance(one, PlannedCall) and made.answers(one) for one in planned)
            if not is_ours and made.name not in _OF_THE_LOOP:
                yield made

    def _by_rules(self) -> list[str]:
        """Who answers here; the opening of a degraded answer says it already."""
        return [] if self._is_degraded else [self._phrases["rules"]]

    def _is_new(self, made: MadeCall) -> bool:
        return not (self._has_spoken and made.is_told)

    def _told(self, made: MadeCall) -> str:
        return tell_result(self._phrases, made.name, made.envelope) if self._is_new(made) else ""

    def _told_call(self, call: PlannedCall) -> list[str]:
        if call.is_order and self._is_degraded:
            return [self._phrases["degraded_orders"]]
        made = self._result_of(call)
        if made is None or (call == OPEN_ORDERS and self._is_cancelling()):
            return []
        return [self._told(made)]

    def _is_cancelling(self) -> bool:
        """Whether the open orders were read for cancels that can all be prepared: these are told
        instead."""
        steps = [step for step in self._plan.steps if isinstance(step, PlannedCancel)]
        calls = [self._order_of(step) for step in steps]
        return not self._is_degraded and all(
            call is not None and (call.name in self._available or self._result_of(call))
            for call in calls
        )

    def _told_cancel(self, step: PlannedCancel) -> list[str]:
        if self._is_degraded:
            return [self._phrases["degraded_orders"]]
        found = self._resolved(step)
        if isinstance(found, Remark):
            return self._told_remark(found)
        made = self._result_of(found) if found is not None else None
        return [self._told(made)] if made is not None else []

    def _told_remark(self, remark: Remark) -> list[str]:
        if self._has_spoken:
            return []
        orders = "degraded_orders" if self._is_degraded else "can_order"
        if self._is_degraded and remark.key in _OF_ORDERS:
            return [self._phrases[orders]]
        said = [self._phrases[remark.key].format(**remark.values)]
        if remark.key in _BY_RULES:
            said += self._by_rules()
        if remark.key in _WITH_MORE:
            said += [self._phrases["can_read"], self._phrases[orders]]
        if remark.key == "nothing_pending" and not self._is_degraded:
            said.append(self._phrases["say_whole"])
        return said

    def _missing(self) -> list[str]:
        """What could not be called at all."""
        wanted = [
            call.name
            for step in self._plan.steps
            if (call := self._order_of(step) or step)
            and isinstance(call, PlannedCall)
            and not (call.is_order and self._is_degraded)
            and call.name not in self._available
            and self._result_of(call) is None
        ]
        names = ", ".join(dict.fromkeys(wanted))
        return [self._phrases["unavailable"].format(tools=names)] if names else []
