"""One word per thing: identifiers use the glossary of the architecture, not its synonyms."""

import ast
import re

from support.source import name_of, parsed, python_files, tracked

SOURCES = python_files("libs", "services")

NOT_OUR_WORDS = {
    "session": ("thread_id", "chat_id", "conversation_id"),
    "turn": ("run_id", "round_id"),
    "step": ("iteration_count", "cycle_number"),
    "tool call": ("function_call",),
    "tool set": ("toolkit", "tool_group"),
    "tool entry": ("tool_spec", "tool_descriptor"),
    "gate, hook": ("guardrail", "call_validator"),
    "approval": ("consent", "sign_off"),
    "pending action": ("confirmation_object", "confirmation_request"),
    "confirm, reject": ("approve", "decline"),
    "turn ledger": ("scratchpad",),
    "trading state": ("kill_switch", "paused_flag"),
    "instrument": ("token_pair",),
    "skill": ("plugin",),
    "playbook": ("prompt_template",),
    "daily log": ("journal",),
    "etag": ("version_hash",),
    "peer": ("upstream_service", "backend_service"),
}
VAGUE = re.compile(r"(Manager|Helper|Util|Utils|Impl|Data|Info|Handler)$")
ALLOWED_VAGUE: frozenset[str] = frozenset({"ToolHandler", "MarketData"})
"""The specification calls a tool's function its handler, and its port market data."""


def _identifiers(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                names.add(name)
            case _:
                pass
    return names


FOREIGN_VOCABULARY = "genai.py"
"""Names of OpenTelemetry's conventions, which are not ours to choose."""


def test_identifiers_use_our_words() -> None:
    wrong: list[str] = []
    for path in SOURCES:
        if path.name == FOREIGN_VOCABULARY:
            continue
        for name in _identifiers(parsed(path)):
            folded = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
            wrong += [
                f"{name_of(path)}: {name} (say {ours!r})"
                for ours, others in NOT_OUR_WORDS.items()
                for other in others
                if other in folded
            ]
    assert not wrong, wrong


def test_no_vague_class_names() -> None:
    vague = [
        f"{name_of(path)}: {node.name}"
        for path in SOURCES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
        and VAGUE.search(node.name)
        and node.name not in ALLOWED_VAGUE
    ]
    assert not vague, vague


def test_protos_say_state_and_time_as_agreed() -> None:
    wrong: list[str] = []
    for path in tracked("proto/**.proto"):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            field = re.match(r"\s+(?:repeated )?[\w.<>, ]+ (\w+) = \d+;", line)
            if field and re.search(r"(^|_)(status|timestamp|created_at|updated_at)$", field[1]):
                wrong.append(f"{name_of(path)}:{number}: {field[1]}")
            if re.match(r"\s+(double|float) ", line) and "fraction" not in line:
                wrong.append(f"{name_of(path)}:{number}: money and quantities are Decimal")
    assert not wrong, wrong
