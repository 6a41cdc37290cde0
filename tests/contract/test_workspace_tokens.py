"""Commit tokens: bound to their turn, unforgeable, shared by replicas."""

import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from minara_core.errors import InvalidRequest
from minara_workspace.adapters.commit_tokens import SealedTokens
from minara_workspace.adapters.sql_sessions import VERSIONS
from minara_workspace.app.ports import CommitTokens
from minara_workspace.domain.session import FrozenBlocks
from support.databases import Databases
from support.workspace_sessions import FakeTokens

BLOCKS = FrozenBlocks(identity="# Who\r\n\u2028 以太", memory="")


@pytest.fixture(params=["fake", "real"])
async def tokens(request: pytest.FixtureRequest, sqlite_databases: Databases) -> CommitTokens:
    if request.param == "fake":
        return FakeTokens()
    made = SealedTokens(await sqlite_databases.open(VERSIONS))
    await made.load_key()
    return made


def test_a_token_gives_back_what_was_sealed(tokens: CommitTokens) -> None:
    assert tokens.open("turn-1", tokens.seal("turn-1", BLOCKS)) == BLOCKS


def test_a_token_knows_which_refresh_its_pages_were_read_for(tokens: CommitTokens) -> None:
    read = replace(BLOCKS, refresh_time=datetime(2026, 11, 30, 12, 0, 0, 7, tzinfo=UTC))
    assert tokens.open("turn-1", tokens.seal("turn-1", read)) == read


def test_no_token_carries_nothing(tokens: CommitTokens) -> None:
    assert tokens.open("turn-1", "") is None


@pytest.mark.parametrize("forged", ["x", "é", base64.b64encode(b"0" * 80).decode(), "AAAA"])
def test_a_forged_token_is_refused(tokens: CommitTokens, forged: str) -> None:
    with pytest.raises(InvalidRequest):
        tokens.open("turn-1", forged)


def test_a_token_of_another_turn_is_refused(tokens: CommitTokens) -> None:
    token = tokens.seal("turn-1", BLOCKS)
    with pytest.raises(InvalidRequest):
        tokens.open("turn-2", token)


async def test_a_changed_token_is_refused(sqlite_databases: Databases) -> None:
    tokens = SealedTokens(await sqlite_databases.open(VERSIONS))
    await tokens.load_key()
    sealed = bytearray(base64.b64decode(tokens.seal("turn-1", BLOCKS)))
    for place in (0, 31, 32, len(sealed) - 1):
        changed = bytes([*sealed[:place], sealed[place] ^ 1, *sealed[place + 1 :]])
        with pytest.raises(InvalidRequest):
            tokens.open("turn-1", base64.b64encode(changed).decode())


async def test_replicas_share_the_key_and_other_installations_do_not(databases: Databases) -> None:
    url = await databases.url(VERSIONS)
    here, there = (SealedTokens(databases.reopen(url)) for _ in range(2))
    elsewhere = SealedTokens(await databases.open(VERSIONS))
    for each in (here, there, elsewhere):
        await each.load_key()
    token = here.seal("turn-1", BLOCKS)
    assert there.open("turn-1", token) == BLOCKS
    with pytest.raises(InvalidRequest):
        elsewhere.open("turn-1", token)
