"""Daily logs: which of them a prompt takes, and how their text is marked as coming from outside."""

import hashlib
import re
from collections.abc import Iterable

from minara_core.ids import UserId
from minara_core.untrusted import wrap
from minara_workspace.domain.document import Document

DAILY_LOGS = "memory"
"""The folder of daily logs inside a person's folder."""

NEWEST_LOGS = 3
_NAME = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])\.md")


def newest(names: Iterable[str]) -> list[str]:
    """The newest names of daily logs among `names`, newest last; what is named otherwise is none.

    A name says the day, so that the order of names is that of days.
    """
    return sorted(name for name in names if _NAME.fullmatch(name))[-NEWEST_LOGS:]


def marked(log: Document, user_id: UserId) -> str:
    """The log's text between markers. They depend on nothing but person, name and text, so that
    every replica makes the same bytes, and no text can contain its own."""
    seed = f"daily-log\x1f{user_id}\x1f{log.name}\x1f{log.text}"
    marker = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return wrap(log.text.strip(), source=f"daily-log:{log.name}", marker=marker)
