"""What a harness tells the processes it starts; JSON, since it travels through a pipe."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Bug(StrEnum):
    """A fault planted in the tools process, which the harness has to find.

    RESENDS: recovery sends what it does not find. VOIDS_EARLY: absence counts as proven at once,
    since validity is said to be over and the clocks run away. SENDS_EARLY: the request
    leaves before `sent` is on disk.
    """

    NONE = ""
    RESENDS = "resends"
    VOIDS_EARLY = "voids_early"
    SENDS_EARLY = "sends_early"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`kind` is "venue" or "tools", `who` its clock, `folder` the run's. The process writes to
    `<who>.ready` where it answers. A tools process with a `point` dies (SIGKILL) or stops
    (SIGSTOP) there once it is armed, and says so in `<who>.met`."""

    kind: str
    who: str
    folder: str
    database_url: str
    venue_url: str = ""
    point: str = ""
    is_kill: bool = False
    bug: Bug = Bug.NONE

    def place(self, name: str) -> Path:
        """A file of this process in the run's folder."""
        return Path(self.folder) / f"{self.who}.{name}"

    @property
    def control(self) -> Path:
        return Path(self.folder) / "control"

    @property
    def data_dir(self) -> Path:
        return Path(self.folder) / "data"

    @property
    def sends(self) -> Path:
        """One line for each request that any process sends: the process and the client id."""
        return Path(self.folder) / "sends"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Start":
        fields: dict[str, Any] = json.loads(text)
        fields["bug"] = Bug(fields["bug"])
        return Start(**fields)
