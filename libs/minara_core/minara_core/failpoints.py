"""Named points at which a test may kill the process.

Use cases take a Failpoint and call it by name; in production it does nothing. The names stand in
one place per service, next to the test that uses them.
"""

from typing import Protocol


class Failpoint(Protocol):
    def __call__(self, name: str) -> None:
        """Return, or never return because the process is gone."""
        ...


def no_failpoint(name: str) -> None:
    """The production failpoint: nothing happens."""
