"""`flightcheck-epilog`: the entry point that slurmd's Epilog calls.

A non-zero exit of an Epilog drains the node ("Epilog error"): see `healthcheck.entry`.
"""

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from healthcheck.entry import Run


def main() -> None:
    """Look at the node after the job in the environment, read why it failed, act, exit."""
    started = time.monotonic()
    try:
        from healthcheck.entry import run_hook

        run_hook("epilog", _load, started, name="epilog")
    except BaseException as error:  # noqa: BLE001 - an installation that is broken drains no node
        try:
            text = (
                f"flightcheck: unknown: the epilog can't start ({error!r}); nothing "
                "was drained. Install flightcheck anew on this node.\n"
            )
            os.write(2, text.encode(errors="replace"))
        finally:
            os._exit(0)


def _load() -> "Run":
    from epilog.stage import run_epilog

    return run_epilog


if __name__ == "__main__":
    main()
