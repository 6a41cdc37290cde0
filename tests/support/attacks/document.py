"""All attacks there are, and the page that lists them.

`PYTHONPATH=tests python -m support.attacks.document` writes docs/hostile.md anew.
"""

from collections.abc import Iterable
from typing import Any

from support.attacks import (
    answers,
    arguments,
    backup,
    grants,
    names,
    recipients,
    standing,
    steering,
    words,
)
from support.attacks.table import AttackClass
from support.source import ROOT

ON_TOOLS = (
    *grants.CLASSES,
    *words.CLASSES,
    *steering.CLASSES,
    *arguments.CLASSES,
    *names.CLASSES,
    *recipients.CLASSES,
    *standing.CLASSES,
    *backup.CLASSES,
)
ON_GATEWAY = answers.CLASSES
PAGE = ROOT / "docs" / "hostile.md"

_HEAD = """# Hostile models, orchestrators and texts

Made from the tables in `tests/support/attacks` by `support.attacks.document`; do not edit.

Each row is a test that plays the attack against the real services: it must end in exactly this
code, and the venue's own list of orders must hold none that a person did not confirm. A *preview*
moves nothing: it waits for a person, and one that nobody asked for answers to no bare yes.
"""


def page() -> str:
    """The text of docs/hostile.md."""
    classes: tuple[AttackClass[Any], ...] = (*ON_TOOLS, *ON_GATEWAY)
    count = sum(len(one.attacks) for one in classes)
    summary = f"{len(classes)} classes, {count} attacks."
    return "\n".join([_HEAD, summary, *(_section(one) for one in classes)])


def _section(one: AttackClass[Any]) -> str:
    rows = [f"| {a.name} | {a.tool} | `{a.code}` |" for a in one.attacks]
    return "\n".join(_lines(one.name, rows))


def _lines(name: str, rows: Iterable[str]) -> list[str]:
    title = name[0].upper() + name[1:]
    return [f"\n## {title}\n", "| Attack | Aimed at | Ends in |", "| --- | --- | --- |", *rows]


if __name__ == "__main__":
    PAGE.write_text(page() + "\n", "utf-8")
