"""Workspace documents: which there are, and how much of one a prompt takes.

Bytes on disk are never changed here. Lengths count UTF-16 units, as the OpenClaw format does.
"""

from dataclasses import dataclass

IDENTITY_DOCUMENTS = ("SOUL.md", "AGENTS.md", "IDENTITY.md", "TOOLS.md")
"""Block 1, in this order; the specification names the first two, the rest comes after them."""

MEMORY_DOCUMENTS = ("USER.md", "MEMORY.md")
"""Block 3, in this order."""

BOOTSTRAP_DOCUMENT = "BOOTSTRAP.md"
HEARTBEAT_DOCUMENT = "HEARTBEAT.md"
SEEDED_DOCUMENTS = ("SOUL.md", "AGENTS.md", "IDENTITY.md", "USER.md", "MEMORY.md")
"""HEARTBEAT.md is written at the first turn's end; BOOTSTRAP.md only into a new workspace."""

MAX_BYTES = 2 * 1024 * 1024
PAGE_UNITS = 20_000
TOTAL_UNITS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A page as it was read. `notice` says why its text is missing or not whole, else empty."""

    name: str
    text: str
    notice: str = ""


def utf16_units(text: str) -> int:
    """Length in UTF-16 units: two for a character outside the basic plane."""
    return len(text) + sum(character > "\uffff" for character in text)


def cut(text: str, units: int) -> str:
    """The longest head of `text` within `units` UTF-16 units, never half a character."""
    if len(text) * 2 <= units or utf16_units(text) <= units:
        return text
    used = 0
    for position, character in enumerate(text):
        used += 2 if character > "\uffff" else 1
        if used > units:
            return text[:position]
    return text


def capped(document: Document, units: int) -> Document:
    """The document within `units`, with a notice that says how much is shown."""
    head = cut(document.text, units)
    if head == document.text:
        return document
    whole = utf16_units(document.text)
    notice = f"[{document.name} is cut: {utf16_units(head)} of {whole} characters shown]"
    return Document(name=document.name, text=head, notice=notice)
