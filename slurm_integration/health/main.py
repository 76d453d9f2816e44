"""`flightcheck-health`: the entry point that slurmd's HealthCheckProgram calls.

slurmd gives it SLURMD_NODENAME and a minute, and only logs how it ends.
"""

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from healthcheck.entry import Run


def main() -> None:
    """Look at the node, whether a job runs here or not, act, exit."""
    started = time.monotonic()
    try:
        from healthcheck.entry import run_hook

        run_hook("health", _load, started, name="health program")
    except BaseException as error:  # noqa: BLE001 - an installation that is broken drains no node
        try:
            text = (
                f"flightcheck: unknown: the health program can't start ({error!r}); nothing was "
                "drained. Install flightcheck anew on this node.\n"
            )
            os.write(2, text.encode(errors="replace"))
        finally:
            os._exit(0)


def _load() -> "Run":
    from slurm_integration.health.stage import run_health

    return run_health


if __name__ == "__main__":
    main()
