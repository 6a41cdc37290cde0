"""The file HALT in the data folder: it stops the installation with every service dead."""

from pathlib import Path

NAME = "HALT"


class HaltFile:
    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def exists(self) -> bool:
        """Whether it lies there, whatever it is; doubt counts as yes."""
        try:
            self._path.lstat()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True
