"""Write docs/denials.md from the table of denial reasons; `--check` fails when it is stale."""

import sys
from pathlib import Path

from minara_core.denial_docs import denial_docs

PAGE = Path(__file__).resolve().parent.parent / "docs" / "denials.md"
HEAD = """# Denials

Made by `scripts/generate_denials.py` from `libs/minara_core/minara_core/denials.toml`; do not edit.

A tool call that one of Minara's gates refuses is *denied*: the tool did not run, nothing was sent.
The denial carries one of these reasons, a sentence, the gate, and metadata. Keys in brackets are
there only where they are known.

| Reason | Means | Metadata | What you can do |
| --- | --- | --- | --- |
"""


def page() -> str:
    rows = [
        f"| `{doc.reason}` | {doc.meaning} | {_keys(doc.keys, doc.optional)} | {doc.remedy} |"
        for doc in sorted(denial_docs().values(), key=lambda one: one.reason)
    ]
    return HEAD + "\n".join(rows) + "\n"


def _keys(keys: tuple[str, ...], optional: tuple[str, ...]) -> str:
    shown = [*(f"`{key}`" for key in keys), *(f"[`{key}`]" for key in optional)]
    return ", ".join(shown) or "none"


def main() -> int:
    wanted = page()
    if "--check" in sys.argv[1:]:
        is_fresh = PAGE.exists() and PAGE.read_text("utf-8") == wanted
        if not is_fresh:
            print("docs/denials.md is stale: run scripts/generate_denials.py")
        return 0 if is_fresh else 1
    PAGE.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
