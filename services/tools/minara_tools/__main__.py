"""`python -m minara_tools`: this service in a process of its own."""

import minara_runtime.load_env  # isort: skip - it must run before anything reads the environment

from minara_tools.main import main

assert minara_runtime.load_env
main()
