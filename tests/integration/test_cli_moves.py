"""Orders, withdrawals and the stop from the command line, through real processes."""

import json
import subprocess
from pathlib import Path

import pytest

from support import process

EVM_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def minara(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = process.minara(home / "data", *arguments, TERM="dumb")
    assert "Traceback" not in done.stdout
    return done


def test_orders_are_listed_for_people_and_as_json(tmp_path: Path) -> None:
    shown = minara(tmp_path, "orders")
    assert (shown.returncode, shown.stdout) == (0, "open orders at paper (PAPER):\n  none\n")
    answer = json.loads(minara(tmp_path, "orders", "--json").stdout)
    assert (answer["open_orders"], answer["recent_moves"]) == ([], [])


def test_a_withdrawal_without_a_terminal_needs_every_field_of_the_card(tmp_path: Path) -> None:
    assert minara(tmp_path, "withdraw", "--asset", "USDC").returncode == 2
    added = minara(tmp_path, "addresses", "add", "wallet", "base", EVM_ADDRESS)
    assert added.returncode == 0, added.stderr
    card = ("--asset", "USDC", "--amount", "50", "--address", "wallet", "--last-six")
    refused = minara(tmp_path, "withdraw", *card, "000000")
    assert (refused.returncode, "ADDRESS_INVALID" in refused.stdout) == (1, True)
    early = minara(tmp_path, "withdraw", *card, EVM_ADDRESS[-6:])
    assert (early.returncode, "ADDRESS_NOT_USABLE" in early.stdout) == (1, True)


@pytest.mark.parametrize("options", [(), ("--close", "--cancel-protection")])
def test_a_halt_holds_with_every_option(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert minara(tmp_path, "orders").returncode == 0
    halted = minara(tmp_path, "halt", *options)
    assert (halted.returncode, "halted" in halted.stdout) == (0, True)
