"""What a sub-agent's calls may be, told by the path that is their id."""

from dataclasses import replace

import pytest

from minara_core.ids import ToolCallId
from minara_core.reasons import DenialReason
from minara_core.taxonomy import PermissionTier
from minara_tools.domain.call_paths import depth, is_call_path
from minara_tools.domain.gates import GATES
from minara_tools.domain.hooks import pass_gates
from minara_tools.domain.local_tools import SubagentArguments, local_tools
from minara_tools.domain.outcomes import ToolCallBlockedError
from minara_tools.domain.permission import AUTOMATIC_TOOL_SETS
from support.tools.entries import a_tool
from support.tools.gates import BUY, LEDGER, a_gate_input, refusal, tools


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("buy_token", BUY),
        ("sign_by_hand", "{}"),
        ("wipe_files", "{}"),
        ("ask_user", '{"question":"Which one?"}'),
        ("activate_skills", '{"skill_ids":["trade.spot"]}'),
    ],
)
def test_a_sub_agent_may_not_call_what_is_the_turns_alone(name: str, arguments: str) -> None:
    entries = (
        *tools(),
        *local_tools(),
        a_tool("sign_by_hand", tool_set="file", tier=PermissionTier.MANUAL_ONLY),
        a_tool("wipe_files", tool_set="file", tier=PermissionTier.ALWAYS_CONFIRM),
    )
    ledger = replace(LEDGER, tool_sets=LEDGER.tool_sets | {"turn"})
    for call_id in ("1.0/1.0", "1.0/1.0/1.0"):
        with pytest.raises(ToolCallBlockedError) as caught:
            pass_gates(
                GATES,
                a_gate_input(name, arguments, ledger=ledger, entries=entries, call_id=call_id),
            )
        assert caught.value.reason is DenialReason.SUBAGENT_FORBIDDEN
        assert caught.value.metadata == {"tool": name}
    own = refusal(a_gate_input(name, arguments, ledger=ledger, entries=entries))
    assert own is not DenialReason.SUBAGENT_FORBIDDEN


def test_a_sub_agent_reads_and_writes_what_a_message_may() -> None:
    for name in ("get_price", "write_file"):
        assert refusal(a_gate_input(name, "{}", call_id="3.1/2.0")) is None


def test_sub_agents_nest_once_and_no_deeper() -> None:
    task = '{"task":"compare","tool_sets":["read"]}'
    ledger = replace(LEDGER, tool_sets=frozenset({"turn"}))

    def at(call_id: str) -> DenialReason | None:
        return refusal(
            a_gate_input("subagent", task, ledger=ledger, entries=local_tools(), call_id=call_id)
        )

    assert at("1.0") is None
    assert at("1.0/1.0") is None
    assert at("1.0/1.0/1.0") is DenialReason.SUBAGENT_FORBIDDEN


def test_a_sub_agent_is_offered_only_sets_that_move_nothing() -> None:
    offered = set(SubagentArguments.model_json_schema()["properties"]["tool_sets"]["items"]["enum"])
    assert offered == (AUTOMATIC_TOOL_SETS - {"turn"}) | {"analysis"}
    assert not {entry.name for entry in tools() if entry.tool_set in offered} & {"buy_token"}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"task":"","tool_sets":["read"]}',
        '{"task":"x","tool_sets":[]}',
        '{"task":"x","tool_sets":["trade"]}',
        '{"task":"x","tool_sets":["turn"]}',
        '{"task":"x","tool_sets":["read"],"max_steps":0}',
        '{"task":"x","tool_sets":["read"],"max_steps":13}',
        '{"task":"x","tool_sets":["read"],"grant":"mine"}',
    ],
)
def test_a_sub_agent_of_other_arguments_is_refused(arguments: str) -> None:
    ledger = replace(LEDGER, tool_sets=frozenset({"turn"}))
    given = a_gate_input("subagent", arguments, ledger=ledger, entries=local_tools())
    assert refusal(given) is DenialReason.ARGUMENTS_INVALID


@pytest.mark.parametrize("text", ["1.0", "0.0", "3.1/2.0", "3.1/2.0/12.40", "999999.999999"])
def test_a_call_id_is_a_path_of_at_most_three_pairs(text: str) -> None:
    assert is_call_path(text)
    assert depth(ToolCallId(text)) == text.count("/")


@pytest.mark.parametrize(
    "text",
    ["", "1", "1.", ".1", "1.0/", "/1.0", "1.0/2", "1.0//2.0", "1.0/2.0/3.0/4.0", "01.0", "1.00",
     "1.0\n", " 1.0", "1.0/again", "call_1", "-1.0", "1.0.0", "١.٠", "1234567.0", "1.0\\2.0"],
)  # fmt: skip
def test_nothing_else_is_a_call_id(text: str) -> None:
    assert not is_call_path(text)
