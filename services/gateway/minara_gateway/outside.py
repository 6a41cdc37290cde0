"""Strings that others wrote, made harmless to show."""

import re
import unicodedata

OUTSIDE_LIMIT = 32
_FULL_LIMIT = 160
_LINE_LIMIT = 200

_PLAIN = re.compile(r"[A-Za-z0-9.,:/_%$+-]+(?: [A-Za-z0-9.,:/_%$+-]+)?")
"""A name or a number with its unit: shown as it is. Anything else stands in quotation marks."""


def outside(text: str) -> str:
    """A name: NFKC, without control, bidirectional, escape and combining characters, at most 32
    characters, in quotation marks unless it is a plain one."""
    folded = unicodedata.normalize("NFKC", text)
    shown = "".join(c for c in folded if c.isprintable() and unicodedata.category(c)[0] != "M")
    if not shown or (len(shown) <= OUTSIDE_LIMIT and _PLAIN.fullmatch(shown)):
        return shown
    room = OUTSIDE_LIMIT - 2
    return f'"{shown if len(shown) <= room else shown[: room - 1] + "…"}"'


def in_full(text: str) -> str:
    """An address, an account or a memo, never shortened: whatever is not visible ASCII is written
    out by its code, since one wrong character sends money elsewhere."""
    return "".join(c if " " < c <= "~" else f"<U+{ord(c):04X}>" for c in text[:_FULL_LIMIT]) + (
        "" if len(text) <= _FULL_LIMIT else "<…>"
    )


def outside_line(text: str) -> str:
    """A sentence: one line, at most 200 characters."""
    folded = unicodedata.normalize("NFKC", text)
    return "".join(c for c in folded if unicodedata.category(c)[0] != "C")[:_LINE_LIMIT]
