"""`make faults N=500 SEED=1`: so many runs from that seed on; every one can be played again."""

import sys

from support.faults.cli import main

sys.exit(main())
