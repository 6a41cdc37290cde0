"""What sets an installation up: keys, tokens, the names of services. In this process, for speed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from minara_gateway.cli import app

SERVICES = {"gateway", "orchestrator", "skills", "tools", "workspace"}


def cli(data_dir: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"MINARA_DATA_DIR": str(data_dir)})


@pytest.mark.parametrize("command", ["service", "health"])
def test_an_unknown_service_is_refused_with_the_known_ones(tmp_path: Path, command: str) -> None:
    refused = cli(tmp_path / "data", command, "wallet")
    assert refused.exit_code == 2
    assert all(name in refused.stderr for name in SERVICES)


def test_all_keys_are_made_once_and_the_public_halves_shown(tmp_path: Path) -> None:
    data_dir, public = tmp_path / "data", tmp_path / "public"
    first = cli(data_dir, "keys", "init", "--public", str(public))
    assert first.exit_code == 0, first.stderr
    assert cli(data_dir, "keys", "init", "--public", str(public)).stdout == first.stdout
    shown = {str(path.relative_to(public)) for path in public.rglob("*") if path.is_file()}
    assert shown == {f"{name}/{name}.pub" for name in SERVICES} | {
        "gateway/gateway-confirmation.pub"
    }
    cli(data_dir, "keys", "rotate", "tools", "--compromised")
    cli(data_dir, "keys", "init", "--public", str(public))
    made_anew = (public / "tools" / "tools.pub").read_text("ascii")
    assert made_anew == (data_dir / "keys" / "tools" / "tools.pub").read_text("ascii")


def test_a_token_is_made_listed_and_revoked(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    made = cli(data_dir, "token", "create", "--user", "alice", "--name", "a robot")
    assert len(made.stdout.strip()) > 40
    (listed,) = json.loads(cli(data_dir, "token", "list", "--json").stdout)
    assert made.stdout.strip() not in json.dumps(listed)
    assert (listed["user"], listed["name"]) == ("alice", "a robot")
    assert listed["scopes"] == "chat,read,trade"
    warned = cli(data_dir, "token", "create", "--user", "alice", "--can-confirm")
    assert "can move money" in warned.stderr
    assert cli(data_dir, "token", "revoke", listed["id"]).exit_code == 0
    assert cli(data_dir, "token", "revoke", listed["id"]).exit_code == 1
    for wrong in (("--scopes", "confirm"), ("--scopes", "root"), ("--user", " ")):
        refused = cli(data_dir, "token", "create", "--user", "bob", *wrong)
        assert refused.exit_code == 2, wrong
