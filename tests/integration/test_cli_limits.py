"""Limits, recipients and tools from the command line, through real processes."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pexpect
import pytest

from support import process
from support.process import MINARA

EVM_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def environment(home: Path) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if n in {"PATH", "LANG"}}  # noqa: TID251 - the child's environment is explicit
    return kept | {"HOME": str(home), "MINARA_DATA_DIR": str(home / "data"), "TERM": "dumb"}


def minara(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = process.minara(home / "data", *arguments, TERM="dumb")
    assert "Traceback" not in done.stdout
    return done


def as_json(home: Path, *arguments: str) -> dict[str, Any]:
    done = minara(home, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def values(answer: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"]["value"] for one in answer["limits"]["limits"]}


def test_the_first_choice_holds_at_once_and_a_raise_waits(tmp_path: Path) -> None:
    chosen = as_json(tmp_path, "setup", "--limits", "small")
    assert values(chosen)["max_move_usd"] == "500"
    raised = minara(tmp_path, "limits", "set", "max_move_usd=8000", "max_day_moves=3")
    assert raised.returncode == 0
    assert "max_move_usd will be 8000 from 20" in raised.stdout
    shown = as_json(tmp_path, "limits", "show")
    assert values(shown)["max_move_usd"] == "500"
    assert values(shown)["max_day_moves"] == "3"
    assert [one["name"] for one in shown["limits"]["raises"]] == ["max_move_usd"]


def test_own_numbers_can_be_set_up_without_being_asked(tmp_path: Path) -> None:
    chosen = as_json(tmp_path, "setup", "--limits", "own", "--set", "max_move_usd=7000")
    assert values(chosen)["max_move_usd"] == "7000"
    assert chosen["limits"]["raises"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["setup"],
        ["setup", "--limits", "huge"],
        ["setup", "--limits", "own"],
        ["setup", "--limits", "small", "--set", "max_move_usd=1"],
        ["limits", "set"],
    ],
)
def test_a_wrong_call_ends_with_2(tmp_path: Path, arguments: list[str]) -> None:
    assert minara(tmp_path, *arguments).returncode == 2


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("max_move_usd", "REQUEST_INVALID"),
        ("max_fun=3", "REQUEST_INVALID"),
        ("max_move_usd=1e3", "AMOUNT_INVALID"),
        ("max_move_usd=0", "LIMIT_INVALID"),
    ],
)
def test_a_limit_that_makes_no_sense_ends_with_1_and_a_reason(
    tmp_path: Path, word: str, reason: str
) -> None:
    done = minara(tmp_path, "limits", "set", word)
    assert done.returncode == 1
    assert reason in done.stderr


def test_setup_asks_a_person_once(tmp_path: Path) -> None:
    def spawned() -> "pexpect.spawn[str]":
        return pexpect.spawn(
            str(MINARA),
            ["setup"],
            env=environment(tmp_path),
            cwd=str(tmp_path),
            encoding="utf-8",
            timeout=40,
        )

    first = spawned()
    first.expect("Your limits")
    first.sendline("none of them")
    first.expect("Your limits")
    first.sendline("own")
    for answer in ("800", "", "", "", "", ""):
        first.expect(r"\[\d+\]: ")
        first.sendline(answer)
    first.expect(r"max_move_usd\s+800")
    first.expect(pexpect.EOF)
    second = spawned()
    second.expect("you chose before")
    second.expect(r"max_move_usd\s+800")
    second.expect(pexpect.EOF)


def test_a_recipient_is_entered_listed_and_removed(tmp_path: Path) -> None:
    added = as_json(tmp_path, "addresses", "add", "wallet", "ethereum", EVM_ADDRESS)
    listed = minara(tmp_path, "addresses")
    assert EVM_ADDRESS in listed.stdout
    assert "usable from 20" in listed.stdout
    address_id = added["address"]["address_id"]
    assert minara(tmp_path, "addresses", "remove", address_id).returncode == 0
    assert as_json(tmp_path, "addresses", "list")["addresses"] == []
    refused = minara(tmp_path, "addresses", "add", "wallet", "ethereum", EVM_ADDRESS[:-1])
    assert refused.returncode == 1
    assert "ADDRESS_INVALID" in refused.stderr


def test_tools_are_listed_by_set_with_why_one_is_empty(tmp_path: Path) -> None:
    shown = minara(tmp_path, "tools", "list").stdout
    assert "  get_price: READ_ONLY\n" in shown
    assert "research (with read, web)\n  no tools: " in shown
    sets = {one["name"]: one for one in as_json(tmp_path, "tools", "list")["tool_sets"]}
    moving = {tool["name"] for tool in sets["trade"]["tools"] if tool["is_fund_moving"]}
    assert {"buy_token", "sell_token"} <= moving
    assert sets["trade"]["empty_reason"] == ""
    assert sets["browser"]["tools"] == []
    assert sets["browser"]["empty_reason"]
