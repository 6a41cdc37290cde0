"""The chat in a terminal. It speaks HTTP like everybody else, and knows which preview it shows."""

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, cast

from rich.console import Console
from rich.markup import escape

from minara_core.errors import MinaraError
from minara_gateway.client import GatewayClient, StreamedEvent
from minara_gateway.limits_view import describe_addresses, describe_limits, read_changes
from minara_gateway.models_view import describe_choice, describe_models
from minara_gateway.orders_view import describe_answer, describe_halt, describe_orders

RESUME_SECONDS = 60.0
"""How long a cut stream is taken up again from its last event on."""

HELP = """\
Write in English, Chinese or Korean: "price of BTC", "buy $50 of ETH", "my portfolio".
/new            a fresh session            /pending        what waits for you
/confirm CODE   do exactly what was shown  /reject CODE    do not
/stop           halt all trading           /resume         let trading go on
/stop everything  halt, cancel protective orders too, and preview the sale of all you hold
/orders         your orders and moves      /close ASSET    preview the sale of all of it
/cancel ID      preview a cancel           /withdraw       fill in a withdrawal by hand
/state          the trading state          /trace [TURN]   a turn as a tree
/sessions       your sessions              /audit          what was recorded
/limits         your limits; /limits max_move_usd=800 sets one
/model          who answers; /model openai:gpt-6-sol chooses, /model none forgets
/refresh        read your pages again from the next message on
/quit, Ctrl-D   leave"""


WITHDRAWAL_CARD: Mapping[str, str] = MappingProxyType(
    {
        "symbol": "asset",
        "amount": "how much arrives",
        "address": "to which entry, by id or name",
        "last_six": "its address' last six characters",
    }
)


class LineSource(Protocol):
    """Where lines come from: the terminal, or a file of them."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees what is shown; only then a typed word can decide."""
        ...

    async def read(self, prompt: str) -> str | None:
        """The next line, or None at the end."""
        ...


@dataclass(slots=True)
class Shown:
    """What this terminal shows right now: the session, and the preview if one stands last."""

    session_id: str = ""
    turn_id: str = ""
    pending_action_id: str = ""
    text_open: bool = False
    tools: dict[str, str] = field(default_factory=dict[str, str])


class Repl:
    def __init__(
        self,
        client: GatewayClient,
        console: Console,
        *,
        print_trace: Callable[[str], None],
        session_id: str = "",
    ) -> None:
        self._client = client
        self._console = console
        self._print_trace = print_trace
        self._shown = Shown(session_id=session_id)
        self._is_terminal = False
        self._lines: LineSource | None = None

    async def run(self, lines: LineSource) -> None:
        """Read lines until the end of input or /quit."""
        self._is_terminal = lines.is_terminal
        self._lines = lines
        self._console.print(escape(HELP), style="dim", highlight=False)
        while (line := await lines.read("you> ")) is not None:
            text = line.strip()
            if text in {"/quit", "/exit"}:
                return
            if not text:
                continue
            try:
                if text.startswith("/"):
                    await self._command(text)
                else:
                    await self._say(text)
            except MinaraError as error:
                self._end_text()
                self._console.print(
                    plain(f"{error.reason}: {error.message}"), style="red", markup=False
                )
            except asyncio.CancelledError:
                self._end_text()
                self._console.print("stopped watching; the turn goes on", style="yellow")
                task = asyncio.current_task()
                if task is None or task.uncancel() > 0:
                    raise

    async def _say(self, text: str) -> None:
        body: dict[str, Any] = {"message": text, "surface": "repl"}
        if self._shown.session_id:
            body["session_id"] = self._shown.session_id
        if self._shown.pending_action_id and self._is_terminal:
            body["shown_action_id"] = self._shown.pending_action_id
        await self._watch(
            self._client.stream("/v1/chat/stream", body, resume_seconds=RESUME_SECONDS)
        )

    async def _watch(self, events: AsyncIterator[StreamedEvent]) -> None:
        self._shown.pending_action_id = ""
        async for event in events:
            self._show(event)
        self._end_text()

    def _show(self, event: StreamedEvent) -> None:
        show = getattr(self, f"_on_{event.name}", None)
        if show is not None:
            show(event.fields)

    def _on_turn_started(self, fields: dict[str, Any]) -> None:
        self._shown.session_id = fields["session_id"]
        self._shown.turn_id = fields["turn_id"]
        for notice in cast("list[str]", fields.get("notices", [])):
            self._console.print(plain(notice), style="yellow", markup=False)

    def _on_turn_queued(self, fields: dict[str, Any]) -> None:
        self._console.print(f"waiting behind {fields['position']} turn(s)", style="dim")

    def _on_text_delta(self, fields: dict[str, Any]) -> None:
        self._console.print(plain(fields["text"]), end="", markup=False, highlight=False)
        self._shown.text_open = True

    def _on_text_reset(self, fields: dict[str, Any]) -> None:
        self._end_text()
        self._console.print("(the text above is void; a new attempt follows)", style="yellow")

    def _on_model_switched(self, fields: dict[str, Any]) -> None:
        self._end_text()
        left, took = fields["from_model"], fields["to_model"]
        told = f"({left} did not answer: {fields['reason']}; {took} goes on)"
        self._console.print(plain(told), style="yellow", markup=False)

    def _on_context_compacted(self, fields: dict[str, Any]) -> None:
        before, after = fields["tokens_before"], fields["tokens_after"]
        told = f"(the conversation was shortened, {fields['rung']}: {before} to {after} tokens)"
        self._console.print(plain(told), style="dim", markup=False)

    def _on_tool_call_started(self, fields: dict[str, Any]) -> None:
        self._end_text()
        arguments = escape(str(fields["arguments_json"])[:200])
        self._console.print(
            f"→ {escape(fields['name'])} {arguments}", style="cyan", highlight=False
        )

    def _on_tool_call_finished(self, fields: dict[str, Any]) -> None:
        result = cast("dict[str, Any]", fields["result"])
        for outcome in ("denial", "failure"):
            if outcome in result:
                message = plain(f"✗ {result[outcome]['message']}")
                self._console.print(message, style="red", markup=False, highlight=False)
        card = result.get("denial", {}).get("metadata", {}).get("card", "")
        if card == "withdraw_token":
            self._console.print("the form: /withdraw", style="yellow", markup=False)

    def _on_approval_requested(self, fields: dict[str, Any]) -> None:
        self._end_text()
        self._console.rule(style="yellow")
        self._console.print(fields["rendered_preview"], markup=False, highlight=False)
        self._console.rule(style="yellow")
        action = cast("dict[str, Any]", fields.get("action", {}))
        self._shown.pending_action_id = str(action.get("pending_action_id", ""))

    def _on_action_decided(self, fields: dict[str, Any]) -> None:
        self._end_text()
        self._console.print(
            fields["rendered_receipt"], style="green", markup=False, highlight=False
        )

    def _on_turn_completed(self, fields: dict[str, Any]) -> None:
        reason = str(fields["finish_reason"]).removeprefix("FINISH_REASON_").lower()
        if reason not in {"stop", "approval_requested", "question", "degraded"}:
            self._end_text()
            told = fields.get("rendered_end") or f"(ended: {reason})"
            self._console.print(plain(str(told)), style="yellow", markup=False)

    def _on_turn_failed(self, fields: dict[str, Any]) -> None:
        self._end_text()
        self._console.print(
            plain(f"{fields['reason']}: {fields['message']}"), style="red", markup=False
        )

    def _on_turn_cancelled(self, fields: dict[str, Any]) -> None:
        self._end_text()
        self._console.print("(cancelled)", style="yellow")

    def _end_text(self) -> None:
        if self._shown.text_open:
            self._console.print()
            self._shown.text_open = False

    async def _command(self, text: str) -> None:
        name, _, rest = text[1:].partition(" ")
        command = getattr(self, f"_do_{name.lower()}", None)
        if command is None or name.startswith("_"):
            self._console.print(f"no command /{escape(name)}; /help lists them", style="red")
            return
        await command(rest.strip())

    async def _do_help(self, _: str) -> None:
        self._console.print(escape(HELP), style="dim", highlight=False)

    async def _do_new(self, _: str) -> None:
        self._shown = Shown()
        self._console.print("a fresh session begins with your next message", style="dim")

    async def _do_confirm(self, code: str) -> None:
        await self._decide("confirm", code)

    async def _do_reject(self, code: str) -> None:
        await self._decide("reject", code)

    async def _decide(self, decision: str, code: str) -> None:
        if not code:
            self._console.print(f"say which: /{decision} CODE, as its preview shows", style="red")
            return
        body = {"code": code, "session_id": self._shown.session_id}
        answer = await self._client.call("POST", f"/v1/approvals:{decision}ByCode", body)
        turn_id = str(answer.get("turn_id", ""))
        if not turn_id:
            self._console.print(answer["rendered_receipt"], markup=False, highlight=False)
        else:
            await self._watch(self._client.stream(f"/v1/chat/stream/resume?turn_id={turn_id}"))

    async def _do_pending(self, _: str) -> None:
        answer = await self._client.call("GET", "/v1/approvals")
        actions = cast("list[dict[str, Any]]", answer["pending_actions"])
        if not actions:
            self._console.print("nothing waits for you", style="dim")
        for action in actions:
            self._console.print(action["rendered_preview"], markup=False, highlight=False)

    async def _do_stop(self, words: str) -> None:
        is_all = words.lower() == "everything"
        body = {"reason": "repl", "cancel_protection": is_all, "close_positions": is_all}
        answer = await self._client.call("POST", "/v1/trading:halt", body)
        self._show_trading(answer)
        self._show_lines(describe_halt(answer))
        for action_id in cast("list[str]", answer.get("executing_action_ids", [])):
            self._console.print(f"already on its way: {action_id}", style="yellow")

    async def _do_resume(self, _: str) -> None:
        state = await self._client.call("GET", "/v1/trading")
        answer = await self._client.call(
            "POST", "/v1/trading:resume", {"etag": state["trading_state"]["etag"]}
        )
        self._show_trading(answer)

    async def _do_orders(self, _: str) -> None:
        self._show_lines(describe_orders(await self._client.call("GET", "/v1/orders")))

    async def _do_cancel(self, order_id: str) -> None:
        resting = (await self._client.call("GET", "/v1/orders?recent=0"))["open_orders"]
        found = [one for one in resting if order_id and one["id"].startswith(order_id.lower())]
        if len(found) != 1:
            self._console.print("say which one: /cancel ID, as /orders shows it", style="red")
            return
        body = {"order_id": found[0]["id"], "symbol": found[0]["instrument"]}
        answer = await self._client.call("POST", "/v1/orders:cancel", body)
        self._show_lines(describe_answer(answer))

    async def _do_close(self, symbol: str) -> None:
        if not symbol:
            self._console.print("say which: /close ETH; /stop everything closes all", style="red")
            return
        symbol, _, bound = symbol.partition(" ")
        body = {"side": "sell", "symbol": symbol, "amount_unit": "all"}
        body |= {"bound_percent": bound.strip(" %")} if bound else {}
        self._show_lines(describe_answer(await self._client.call("POST", "/v1/orders", body)))

    async def _do_withdraw(self, _: str) -> None:
        """The card: what the person leaves empty ends it, and nothing is sent."""
        book = await self._client.call("GET", "/v1/addresses?page_size=500")
        self._show_lines(describe_addresses(book["addresses"]))
        card: dict[str, str] = {}
        for name, question in WITHDRAWAL_CARD.items():
            answer = await self._lines.read(f"{question}> ") if self._lines else None
            if not answer or not answer.strip():
                self._console.print("nothing was prepared", style="dim")
                return
            card[name] = answer.strip()
        body = {"tool": "withdraw_token", "arguments": card}
        made = await self._client.call("POST", "/v1/manual-actions", body)
        self._show_lines(describe_answer(made))

    async def _do_state(self, _: str) -> None:
        self._show_trading(await self._client.call("GET", "/v1/trading"))

    async def _do_sessions(self, _: str) -> None:
        answer = await self._client.call("GET", "/v1/sessions")
        for session in cast("list[dict[str, Any]]", answer["sessions"]):
            line = plain(f"{session['session_id']}  {session['title']}")
            self._console.print(line, markup=False, highlight=False)

    async def _do_audit(self, _: str) -> None:
        answer = await self._client.call("GET", "/v1/audit?page_size=20")
        for record in cast("list[dict[str, Any]]", answer["audit_records"]):
            self._console.print(describe_record(record), markup=False, highlight=False)

    async def _do_limits(self, words: str) -> None:
        if words:
            body = {"values": read_changes(words.split())}
            answer = await self._client.call("PATCH", "/v1/limits", body)
        else:
            answer = await self._client.call("GET", "/v1/limits")
        self._show_lines(describe_limits(answer["limits"]))

    async def _do_model(self, words: str) -> None:
        if not words:
            self._show_lines(describe_models(await self._client.call("GET", "/v1/models")))
            return
        body = {"model": "" if words.lower() == "none" else words}
        answer = await self._client.call("PUT", "/v1/models/chosen", body)
        self._show_lines([describe_choice(answer)])

    async def _do_refresh(self, _: str) -> None:
        if not self._shown.session_id:
            self._console.print("no session yet: your pages are read when it begins", style="dim")
            return
        await self._client.call("POST", f"/v1/sessions/{self._shown.session_id}:refresh", {})
        self._console.print("your pages are read again with the next message", style="dim")

    async def _do_trace(self, turn_id: str) -> None:
        self._print_trace(turn_id or self._shown.turn_id)

    def _show_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._console.print(plain(line), markup=False, highlight=False)

    def _show_trading(self, answer: dict[str, Any]) -> None:
        self._console.print(describe_trading(answer["trading_state"]), markup=False)


def plain(text: str) -> str:
    """Text of a model or a tool as a terminal may show it: it cannot move the cursor, clear the
    screen or turn the writing around."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c)[0] != "C")


def describe_trading(record: dict[str, Any]) -> str:
    """A trading state for people: `trading is HALTED since … (reason)`."""
    state = str(record["state"]).removeprefix("TRADING_STATE_")
    since = f" since {record['update_time'][:19]}Z" if record.get("update_time") else ""
    reason = f" ({record['reason']})" if record.get("reason") else ""
    return plain(f"trading is {state}{since}{reason}")


def describe_record(record: dict[str, Any]) -> str:
    """One record as a line for people."""
    kind = str(record["kind"]).removeprefix("AUDIT_KIND_").lower()
    what = [kind, record["subject"], record["outcome"], record["reason"], record["payload_json"]]
    erased = ["(payload erased)"] if record["is_payload_erased"] else []
    place = f"{record['service']} {record['sequence']}"
    words = " ".join(str(word) for word in [*what, *erased] if word)
    return plain(f"{str(record['record_time'])[:19]}Z  {place}  {words}")
