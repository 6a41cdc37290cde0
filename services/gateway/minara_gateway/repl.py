"""The chat in a terminal. It speaks HTTP like everybody else, and knows which preview it shows."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from rich.console import Console
from rich.markup import escape

from minara_core.errors import MinaraError
from minara_gateway.client import GatewayClient
from minara_gateway.goals_view import describe_goal
from minara_gateway.limits_view import describe_addresses, describe_limits, read_changes
from minara_gateway.models_view import describe_choice, describe_models
from minara_gateway.orders_view import describe_answer, describe_halt, describe_orders
from minara_gateway.screen import Screen, plain
from minara_gateway.talking import RESUME_SECONDS, LineSource, Talk

HELP = """\
Write in English, Chinese or Korean: "price of BTC", "buy $50 of ETH", "my portfolio".
While a turn runs, what you write goes into it, and Ctrl-C stops it.
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
/goal [TEXT]    show or set what is to be reached; /goal pause, resume, clear
/goal go        work on it turn by turn until it is met, blocked or you press Ctrl-C
/quit, Ctrl-D   leave"""


_MEANWHILE = frozenset(
    {"audit", "cancel", "close", "confirm", "help", "limits", "orders", "pending", "reject"}
    | {"sessions", "state", "stop", "trace"}
)
"""Commands that may be given while a turn runs."""

WITHDRAWAL_CARD: Mapping[str, str] = MappingProxyType(
    {
        "symbol": "asset",
        "amount": "how much arrives",
        "address": "to which entry, by id or name",
        "last_six": "its address' last six characters",
    }
)


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
        self._screen = Screen(console, session_id=session_id)
        self._talk: Talk | None = None

    async def run(self, lines: LineSource) -> None:
        """Read lines until the end of input or /quit."""
        talk = self._talk = Talk(self._client, self._screen, lines, self._obey_meanwhile)
        self._console.print(escape(HELP), style="dim", highlight=False)
        try:
            while (line := await talk.read()) is not None:
                text = line.strip()
                if text in {"/quit", "/exit"}:
                    return
                if text:
                    await self._do(talk, text)
        finally:
            await talk.aclose()

    async def _do(self, talk: Talk, text: str) -> None:
        try:
            if text.startswith("/"):
                await self._command(text)
            else:
                await talk.say(text)
        except MinaraError as error:
            self._screen.tell(f"{error.reason}: {error.message}", style="red")
        except asyncio.CancelledError:
            self._screen.tell("left; what runs goes on", style="yellow")
            task = asyncio.current_task()
            if task is None or task.uncancel() > 0:
                raise

    async def _obey_meanwhile(self, text: str) -> bool:
        """Do a command that neither reads lines nor shows a turn of its own."""
        if text[1:].partition(" ")[0].lower() not in _MEANWHILE:
            return False
        await self._command(text)
        return True

    @property
    def _talking(self) -> Talk:
        assert self._talk is not None, "commands come from lines"
        return self._talk

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
        self._screen.forget()
        self._console.print("a fresh session begins with your next message", style="dim")

    async def _do_confirm(self, code: str) -> None:
        await self._decide("confirm", code)

    async def _do_reject(self, code: str) -> None:
        await self._decide("reject", code)

    async def _decide(self, decision: str, code: str) -> None:
        if not code:
            self._console.print(f"say which: /{decision} CODE, as its preview shows", style="red")
            return
        body = {"code": code, "session_id": self._screen.session_id}
        answer = await self._client.call("POST", f"/v1/approvals:{decision}ByCode", body)
        turn_id = str(answer.get("turn_id", ""))
        if not turn_id or self._talking.is_watching:
            self._console.print(answer["rendered_receipt"], markup=False, highlight=False)
        else:
            events = self._client.stream(f"/v1/chat/stream/resume?turn_id={turn_id}")
            await self._talking.watch(events)

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
            answer = await self._talking.read(f"{question}> ")
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
        if not self._screen.session_id:
            self._console.print("no session yet: your pages are read when it begins", style="dim")
            return
        await self._client.call("POST", f"/v1/sessions/{self._screen.session_id}:refresh", {})
        self._console.print("your pages are read again with the next message", style="dim")

    async def _do_goal(self, words: str) -> None:
        if words == "go":
            await self._work_on_goal()
            return
        path = await self._goal_path()
        if not words:
            answer = await self._client.call("GET", path)
        elif words in {"pause", "resume", "clear"}:
            answer = await self._client.call("POST", f"{path}:{words}", {})
        else:
            answer = await self._client.call("POST", path, {"text": words})
        self._show_lines(describe_goal(answer))

    async def _work_on_goal(self) -> None:
        """Turn after turn, until the judge finds an end or the person does."""
        path = f"{await self._goal_path()}:continue"
        is_whole = True
        while is_whole:
            events = self._client.stream(path, {}, resume_seconds=RESUME_SECONDS)
            is_whole = await self._talking.watch(events)
            verdict = self._screen.verdict
            await self._talking.say_late(is_wanted=is_whole)
            if verdict != "continue":
                return

    async def _goal_path(self) -> str:
        """Of this session, which begins with its goal if it has to."""
        if not self._screen.session_id:
            session = await self._client.call("POST", "/v1/sessions", {})
            self._screen.session_id = session["session_id"]
        return f"/v1/sessions/{self._screen.session_id}/goal"

    async def _do_trace(self, turn_id: str) -> None:
        self._print_trace(turn_id or self._screen.turn_id)

    def _show_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._console.print(plain(line), markup=False, highlight=False)

    def _show_trading(self, answer: dict[str, Any]) -> None:
        self._console.print(describe_trading(answer["trading_state"]), markup=False)


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
