"""The terminal chat, over the same HTTP as everybody else."""

import re
from io import StringIO

from rich.console import Console

from minara_gateway.repl import Repl
from support.deployments import MinaraFactory
from support.minara import Minara
from support.tools.funds import EVM_ADDRESS


class Lines:
    """Implements LineSource."""

    is_terminal = True
    reads_beside = False
    has_begun = False

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    async def read(self, prompt: str) -> str | None:
        return self._lines.pop(0) if self._lines else None


async def talk(minara: Minara, *lines: str) -> str:
    console = Console(file=StringIO(), width=200, no_color=True)
    traced: list[str] = []
    repl = Repl(minara.client, console, print_trace=traced.append)
    await repl.run(Lines(*lines))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue() + "".join(f"<trace {turn_id}>" for turn_id in traced)


async def test_a_purchase_by_a_typed_yes(minara: Minara) -> None:
    shown = await talk(minara, "buy $50 of ETH", "yes", "my portfolio", "/trace")
    assert shown.index("nothing was executed") < shown.index("PAPER — executed: bought")
    assert "ETH" in shown.rpartition("get_portfolio")[2]
    assert re.search(r"<trace [0-9a-f-]{36}>", shown)
    assert len(await minara.rows("paper", "paper_orders")) == 1


async def test_a_code_decides_where_a_typed_word_does_not(minara: Minara) -> None:
    shown = await talk(minara, "buy $50 of ETH", "price of BTC", "yes", "/pending")
    code = re.search(r"or /confirm ([A-Z2-7]{4})", shown)
    assert code is not None
    assert not await minara.rows("paper", "paper_orders")
    assert "ACTION_NOT_FOUND" in await talk(minara, "/confirm ZZZZ")
    assert "say which: /confirm CODE" in await talk(minara, "/confirm")
    decided = await talk(minara, f"/confirm {code[1]}")
    assert decided.count("PAPER — executed: bought") == 1
    assert "ACTION_NOT_FOUND" in await talk(minara, f"/confirm {code[1]}")
    assert len(await minara.rows("paper", "paper_orders")) == 1


async def test_stop_and_resume(minara: Minara) -> None:
    shown = await talk(minara, "/stop", "buy $50 of ETH", "/resume", "/state")
    assert "trading is HALTED since 20" in shown
    assert "✗" in shown
    assert "trading is ACTIVE" in shown


async def test_what_is_no_command_is_said_and_the_chat_goes_on(minara: Minara) -> None:
    shown = await talk(
        minara,
        "/nonsense",
        "/__class__",
        "",
        "/help",
        "/new",
        "/sessions",
        "/quit",
        "never read",
    )
    assert "no command /nonsense" in shown
    assert "/confirm CODE" in shown


async def test_orders_are_listed_and_cancelled_by_their_id(minara: Minara) -> None:
    shown = await talk(minara, "/orders", "buy 0.1 ETH at 1500", "yes", "/orders")
    assert "open orders at paper (PAPER):" in shown
    found = re.findall(r"  ([0-9a-f]{32})  buy 0.1 ETH/USDC at 1500", shown)
    assert len(found) == 1
    shown = await talk(minara, "/cancel", "/cancel ffff", f"/cancel {found[0][:12]}")
    assert shown.count("say which one: /cancel ID") == 2
    code = re.search(r"To decide: /confirm ([A-Z2-7]{4})", shown)
    assert code is not None
    decided = await talk(minara, f"/confirm {code[1]}", "/orders")
    assert "the order was cancelled" in decided
    assert "  none" in decided


async def test_one_position_is_closed_and_a_stop_of_everything_offers_the_rest(
    minara_factory: MinaraFactory,
) -> None:
    held = {"USDC": "1000", "ETH": "1", "BTC": "0.1"}
    minara = await minara_factory(balances=held)
    shown = await talk(minara, "/close", "/close ETH", "/stop everything")
    assert "say which: /close ETH" in shown
    assert shown.count("Sell 1 ETH for at least") == 2
    assert "Sell 0.1 BTC for at least" in shown
    codes = re.findall(r"To decide: /confirm ([A-Z2-7]{4})", shown)
    decided = await talk(minara, f"/confirm {codes[0]}", f"/confirm {codes[1]}")
    assert "ACTION_NOT_FOUND" in decided  # the stop rejected what waited before it
    assert decided.count("PAPER — executed: sold") == 1


async def test_a_withdrawal_is_filled_in_line_by_line_and_left_by_an_empty_one(
    minara: Minara,
) -> None:
    entry = {"name": "wallet", "chain": "base", "address": EVM_ADDRESS}
    await minara.client.call("POST", "/v1/addresses", entry)
    left = await talk(minara, "/withdraw", "USDC", "")
    assert f"wallet: base {EVM_ADDRESS}" in left
    assert "nothing was prepared" in left
    wrong = await talk(minara, "/withdraw", "USDC", "50", "wallet", "000000")
    assert "ADDRESS_INVALID" in wrong
    early = await talk(minara, "/withdraw", "USDC", "50", "wallet", EVM_ADDRESS[-6:])
    assert "ADDRESS_NOT_USABLE" in early


async def test_a_goal_is_set_shown_and_worked_on(minara: Minara) -> None:
    shown = await talk(
        minara, "/goal", "/goal know the price of ETH", "/goal pause", "/goal go", "/goal resume",
        "/goal go", "/goal", "/goal clear",
    )  # fmt: skip
    assert shown.count("no goal is set in this session") == 2
    assert "goal (active; 0 of 20 turns): know the price of ETH" in shown
    assert "goal (paused by you; " in shown
    assert "GOAL_NOT_ACTIVE" in shown
    assert "(goal: blocked, turn 1 of 20" in shown  # no language model is set up that could judge
    assert "goal (blocked; 1 of 20 turns)" in shown
