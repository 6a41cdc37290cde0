"""What a terminal shows of a turn, event by event, and what it remembers of that."""

import unicodedata
from collections.abc import AsyncIterator
from typing import Any, cast

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from minara_gateway.asking import TOOL as ASK_USER
from minara_gateway.asking import Question, question_of
from minara_gateway.client import StreamedEvent

_WELL_ENDED = frozenset({"stop", "approval_requested", "question", "degraded"})


class Screen:
    """`session_id` and `turn_id` are those of the latest turn that began, `live_turn_id` that of
    the one which is shown right now, once it has begun. `pending_action_id` names the preview if
    one stands last, `question` what was asked last, `verdict` the latest on the goal, `late` the
    messages that came too late for the turn.

    With `is_shared` a prompt stands below what is shown, so that text comes in whole lines.
    """

    def __init__(self, console: Console, *, session_id: str = "") -> None:
        self.session_id = session_id
        self.turn_id = ""
        self.live_turn_id = ""
        self.pending_action_id = ""
        self.question: Question | None = None
        self.verdict = ""
        self.late: list[str] = []
        self.is_shared = False
        self._console = console
        self._is_text_open = False
        self._line = ""

    def forget(self) -> None:
        """Nothing is shown any more: another conversation begins."""
        self.session_id = self.turn_id = self.pending_action_id = self.verdict = ""
        self.question = None

    def begin(self) -> None:
        """A turn is about to be shown."""
        self.live_turn_id = self.pending_action_id = self.verdict = ""
        self.question = None

    async def show_all(self, events: AsyncIterator[StreamedEvent]) -> None:
        """Show a turn to its end. Raises what `events` raises."""
        try:
            async for event in events:
                self.show(event)
        finally:
            self.end_text()

    def show(self, event: StreamedEvent) -> None:
        show = getattr(self, f"_on_{event.name}", None)
        if show is not None:
            show(event.fields)

    def tell(self, text: str, *, style: str = "dim") -> None:
        """A line about the conversation, whoever wrote what it quotes."""
        self.end_text()
        self._console.print(plain(text), style=style, markup=False, highlight=False)

    def end_text(self) -> None:
        """What the model says ends here, or is broken off."""
        if self._line:
            self._console.print(self._line, markup=False, highlight=False)
            self._line = ""
        if self._is_text_open:
            self._console.print()
            self._is_text_open = False

    def _on_turn_started(self, fields: dict[str, Any]) -> None:
        self.session_id = fields["session_id"]
        self.turn_id = self.live_turn_id = fields["turn_id"]
        for notice in cast("list[str]", fields.get("notices", [])):
            self.tell(notice, style="yellow")

    def _on_turn_queued(self, fields: dict[str, Any]) -> None:
        self.tell(f"waiting behind {fields['position']} turn(s)")

    def _on_turn_resumed(self, _: dict[str, Any]) -> None:
        self.tell("(another process goes on with the turn)")

    def _on_text_delta(self, fields: dict[str, Any]) -> None:
        text = plain(fields["text"])
        if self.is_shared:
            self._flow(text)
        else:
            self._console.print(text, end="", markup=False, highlight=False)
            self._is_text_open = True

    def _flow(self, text: str) -> None:
        """Write what makes whole lines, by line ends of its own or by the terminal's width."""
        *whole, self._line = (self._line + text).split("\n")
        width = self._console.width
        while cell_len(self._line) > width:
            most = width
            while cell_len(self._line[:most]) > width:
                most -= 1
            space = self._line.rfind(" ", 0, most + 1)
            end = space if space > 0 else most
            whole.append(self._line[:end])
            self._line = self._line[end:].lstrip(" ")
        for line in whole:
            self._console.print(line, markup=False, highlight=False)

    def _on_text_reset(self, _: dict[str, Any]) -> None:
        self.tell("(the text above is void; a new attempt follows)", style="yellow")

    def _on_model_switched(self, fields: dict[str, Any]) -> None:
        left, took = fields["from_model"], fields["to_model"]
        self.tell(f"({left} did not answer: {fields['reason']}; {took} goes on)", style="yellow")

    def _on_context_compacted(self, fields: dict[str, Any]) -> None:
        before, after = fields["tokens_before"], fields["tokens_after"]
        self.tell(f"(the conversation was shortened, {fields['rung']}: {before} to {after} tokens)")

    def _on_skill_activated(self, fields: dict[str, Any]) -> None:
        reason = f": {fields['reason']}" if fields.get("reason") else ""
        self.tell(f"(skill {fields['skill_id']}{reason})")

    def _on_user_interjected(self, fields: dict[str, Any]) -> None:
        self.tell(f"(now reads: {fields['text']})")

    def _on_goal_judged(self, fields: dict[str, Any]) -> None:
        self.verdict = str(fields["verdict"])
        used = f"turn {fields['turns_used']} of {fields['max_turns']}"
        self.tell(f"(goal: {self.verdict}, {used}: {fields['reason']})", style="cyan")

    def _on_tool_call_started(self, fields: dict[str, Any]) -> None:
        if fields["name"] == ASK_USER:
            self.question = question_of(str(fields["arguments_json"]))
            return
        self.end_text()
        arguments = escape(str(fields["arguments_json"])[:200])
        self._console.print(
            f"{_inset(fields)}→ {escape(fields['name'])} {arguments}", style="cyan", highlight=False
        )

    def _on_tool_call_finished(self, fields: dict[str, Any]) -> None:
        result = cast("dict[str, Any]", fields["result"])
        for outcome in ("denial", "failure"):
            if outcome in result:
                self.tell(f"{_inset(result)}✗ {result[outcome]['message']}", style="red")
        card = result.get("denial", {}).get("metadata", {}).get("card", "")
        if card == "withdraw_token":
            self.tell("the form: /withdraw", style="yellow")

    def _on_approval_requested(self, fields: dict[str, Any]) -> None:
        self.end_text()
        self._console.rule(style="yellow")
        self._console.print(fields["rendered_preview"], markup=False, highlight=False)
        self._console.rule(style="yellow")
        action = cast("dict[str, Any]", fields.get("action", {}))
        self.pending_action_id = str(action.get("pending_action_id", ""))

    def _on_action_decided(self, fields: dict[str, Any]) -> None:
        self.end_text()
        self._console.print(
            fields["rendered_receipt"], style="green", markup=False, highlight=False
        )

    def _on_turn_completed(self, fields: dict[str, Any]) -> None:
        reason = str(fields["finish_reason"]).removeprefix("FINISH_REASON_").lower()
        self._keep_late(fields)
        if reason != "question":
            self.question = None
        elif self.question is not None:
            self.tell(self.question.rendered, style="bold")
        if reason not in _WELL_ENDED:
            self.tell(str(fields.get("rendered_end") or f"(ended: {reason})"), style="yellow")

    def _on_turn_failed(self, fields: dict[str, Any]) -> None:
        self._keep_late(fields)
        self.tell(f"{fields['reason']}: {fields['message']}", style="red")

    def _on_turn_cancelled(self, fields: dict[str, Any]) -> None:
        self._keep_late(fields)
        self.tell("(cancelled)", style="yellow")

    def _keep_late(self, ended: dict[str, Any]) -> None:
        self.late += cast("list[str]", ended.get("pending_interjections", []))


def _inset(call: dict[str, Any]) -> str:
    """Calls of a sub-agent stand under the call that it is."""
    return "  " * str(call.get("tool_call_id", "")).count("/")


def plain(text: str) -> str:
    """Text of a model or a tool as a terminal may show it: it cannot move the cursor, clear the
    screen or turn the writing around."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")
