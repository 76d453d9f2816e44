"""`flightcheck-prolog`: the entry point that slurmd's Prolog calls.

A non-zero exit of a Prolog drains the node: `healthcheck.entry` sees to it that only a decision
ends that way, and what is left here that it ends with 0 where even that can't be imported.
"""

import gc
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from healthcheck.entry import Run


def main() -> None:
    """Look at the node for the job in the environment, act on the verdict, exit."""
    started = time.monotonic()
    # A process that lives for a tenth of a second leaves nothing worth collecting.
    gc.disable()
    try:
        from healthcheck.entry import run_hook

        run_hook("prolog", _load, started, name="prolog", meanwhile="; the job runs")
    except BaseException as error:  # noqa: BLE001 - an installation that is broken drains no node
        try:
            text = (
                f"flightcheck: unknown: the prolog can't start ({error!r}); the job runs, nothing "
                "was drained. Install flightcheck anew on this node.\n"
            )
            os.write(2, text.encode(errors="replace"))
        finally:
            os._exit(0)


def _load() -> "Run":
    from prolog.stage import run_prolog

    return run_prolog


if __name__ == "__main__":
    main()
