"""How every command begins, with its settings, and how it ends, with a sentence and a code."""

import minara_runtime.load_env as load_env  # isort: skip - it must run before anything reads the environment

import os
import sqlite3
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import typer
import uvloop
from rich.console import Console
from sqlalchemy.exc import DBAPIError

from minara_core.errors import MinaraError
from minara_gateway.embedded import EmbeddedSettings, read_settings
from minara_runtime import logging as minara_logging
from minara_runtime.data_folder import DataFolder
from minara_runtime.settings import SettingsError

T = TypeVar("T")

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work; what it refuses ends the command with a sentence, not a traceback."""
    try:
        return uvloop.run(work)
    except SettingsError as error:
        raise ended(error.message, code=2) from error
    except MinaraError as error:
        raise ended(f"{error.reason}: {error.message}") from error
    except OSError as error:
        raise ended(f"the data folder cannot be used: {error}") from error
    except (DBAPIError, sqlite3.Error) as error:
        why = error.orig if isinstance(error, DBAPIError) else error
        raise ended(f"a database in the data folder cannot be used: {why}") from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def ended(why: str, *, code: int = 1) -> typer.Exit:
    """Say why on standard error; 1 is a failure, 2 a wrong setting or call."""
    Console(stderr=True).print(why, style="red", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(code)


def settings_or_end(*, port: int | None = None, host: str | None = None) -> EmbeddedSettings:
    """All settings of this command; ends it with 2 for one that does not fit."""
    os.umask(0o077)  # what Minara keeps is its owner's alone
    try:
        settings = read_settings(port=port, host=host)
        DataFolder(settings.gateway.data_dir)
        minara_logging.configure(settings.gateway, console=False)
    except MinaraError as error:
        raise ended(error.message, code=2) from error
    except OSError as error:
        raise ended(f"MINARA_DATA_DIR: {error}", code=2) from error
    minara_logging.get_logger("start").info(
        "environment",
        taken=[f"{name} from {file}" for name, file in load_env.loaded.taken],
        ignored=[f"{name} from {file}: {why}" for name, file, why in load_env.loaded.ignored],
    )
    return settings
