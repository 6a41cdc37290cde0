"""The garbage collector, once a process has started."""

import gc


def leave_to_live() -> None:
    """Take what lives by now out of the collector's sight, for a process that begins to serve.

    It stays to the end anyway, and walking it stops everything for a tenth of a second at times.
    """
    gc.collect()
    gc.freeze()
