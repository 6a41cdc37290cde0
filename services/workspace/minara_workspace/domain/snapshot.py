"""Blocks 1 and 3 of the prompt, as finished bytes: the same documents give the same bytes."""

from collections.abc import Iterable

from minara_workspace.domain.document import PAGE_UNITS, TOTAL_UNITS, Document, capped, utf16_units

_PRECEDENCE = (
    "These pages are the person's own. They come before everything derived: preferences that were "
    "inferred, learned methods, playbooks and skill texts yield to them."
)


def identity_block(documents: Iterable[Document]) -> str:
    """SOUL, AGENTS, IDENTITY, TOOLS, in this order; empty pages are left out."""
    return _pages("Who you are, and how you work", documents)


def memory_block(documents: Iterable[Document]) -> str:
    """USER and MEMORY, and the rule that they win."""
    pages = _pages("What is known of the person", documents)
    return f"{pages}\n\n{_PRECEDENCE}" if pages else _PRECEDENCE


def _pages(title: str, documents: Iterable[Document]) -> str:
    parts: list[str] = []
    left = TOTAL_UNITS
    for document in documents:
        page = capped(document, min(PAGE_UNITS, left))
        left -= utf16_units(page.text)
        body = "\n".join(part for part in (page.text.strip(), page.notice) if part)
        if body:
            parts.append(f"## {page.name}\n\n{body}")
    return "\n\n".join([f"# {title}", *parts]) if parts else ""
