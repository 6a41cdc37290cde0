"""`python -m minara_workspace`: this service in a process of its own."""

import minara_runtime.load_env  # isort: skip - it must run before anything reads the environment

from minara_workspace.main import main

assert minara_runtime.load_env
main()
