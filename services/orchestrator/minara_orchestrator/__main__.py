"""`python -m minara_orchestrator`: this service in a process of its own."""

import minara_runtime.load_env  # isort: skip - it must run before anything reads the environment

from minara_orchestrator.main import main

assert minara_runtime.load_env
main()
