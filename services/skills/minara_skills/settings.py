"""What the skills service reads from the environment."""

import os
from collections.abc import Iterable

from minara_runtime.settings import Settings


class SkillsSettings(Settings):
    """`MINARA_…` variables of the skills service."""

    skills_database_url: str | None = None


def variables_set(names: Iterable[str]) -> frozenset[str]:
    """Which of the variables that skills ask for are set; never their values."""
    return frozenset(name for name in names if os.environ.get(name))  # noqa: TID251 - settings
