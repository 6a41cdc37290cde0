"""`minara serve`, as `python -m` runs it."""

import sys

from minara_gateway.command import main

sys.argv = ["minara", "serve"]
main()
