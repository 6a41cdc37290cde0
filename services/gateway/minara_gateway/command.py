"""The `minara` command. One service alone starts without importing all that the others need."""

import minara_runtime.load_env as load_env  # isort: skip - it must run before anything reads the environment

import runpy
import sys

from minara_runtime.keys import SERVICES


def main() -> None:
    """`minara service NAME` as `python -m minara_NAME`; everything else is the CLI's."""
    assert load_env
    match sys.argv[1:]:
        case ["service", name] if name in SERVICES:
            runpy.run_module(f"minara_{name}", run_name="__main__")
        case _:
            from minara_gateway import cli

            cli.main()


if __name__ == "__main__":
    main()
