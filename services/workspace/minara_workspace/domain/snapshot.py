"""Blocks 1 and 3 of the prompt, as finished bytes: the same documents give the same bytes."""

from collections.abc import Iterable, Iterator

from minara_core.ids import UserId
from minara_workspace.domain.daily_log import marked
from minara_workspace.domain.document import PAGE_UNITS, TOTAL_UNITS, Document, capped, utf16_units

_PRECEDENCE = (
    "These pages are the person's own. They come before everything derived: preferences that were "
    "inferred, learned methods, playbooks and skill texts yield to them."
)


def identity_block(documents: Iterable[Document]) -> str:
    """SOUL, AGENTS, IDENTITY, TOOLS, in this order; empty pages are left out."""
    return _pages("Who you are, and how you work", documents)


def memory_block(
    documents: Iterable[Document], logs: Iterable[Document] = (), *, user_id: UserId
) -> str:
    """USER and MEMORY, the rule that they win, then recent daily logs as text from outside.

    Pages and logs share TOTAL_UNITS; the newest logs, which stand last, are the last to be cut.
    """
    pages = [*_within(documents, TOTAL_UNITS)]
    left = TOTAL_UNITS - sum(utf16_units(page.text) for page in pages)
    recent = reversed([*_within(reversed([*logs]), left)])
    parts = (
        _block("What is known of the person", [_page(page, page.text) for page in pages]),
        _PRECEDENCE,
        _block("Recent days", [_page(log, _marked(log, user_id)) for log in recent]),
    )
    return "\n\n".join(part for part in parts if part)


def _pages(title: str, documents: Iterable[Document]) -> str:
    return _block(title, [_page(page, page.text) for page in _within(documents, TOTAL_UNITS)])


def _within(documents: Iterable[Document], units: int) -> Iterator[Document]:
    left = units
    for document in documents:
        page = capped(document, min(PAGE_UNITS, left))
        left -= utf16_units(page.text)
        yield page


def _marked(log: Document, user_id: UserId) -> str:
    return marked(log, user_id) if log.text.strip() else ""


def _page(page: Document, text: str) -> str:
    body = "\n".join(part for part in (text.strip(), page.notice) if part)
    return f"## {page.name}\n\n{body}" if body else ""


def _block(title: str, pages: Iterable[str]) -> str:
    parts = [page for page in pages if page]
    return "\n\n".join([f"# {title}", *parts]) if parts else ""
