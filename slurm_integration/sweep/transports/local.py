"""This very machine, without srun or ssh."""

import os
import sys
import threading
import time
from collections.abc import Sequence

from slurm_integration.sweep.model import Answer
from slurm_integration.sweep.transports.base import Arrival, Emit, Errand, Target, no_answer
from slurm_integration.sweep.transports.framing import read_answer, remote_argv
from slurm_integration.sweep.transports.process import Ended, follow

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = ("FLIGHTCHECK_ROOT", "FLIGHTCHECK_CONFIG", "LD_LIBRARY_PATH", "SLURM_CONF")


class LocalTransport:
    """Runs the same script here, with the flightcheck that sweeps unless another is named."""

    name = "local"

    def __init__(self, errand: Errand) -> None:
        self._errand = errand

    def run(self, targets: Sequence[Target], emit: Emit, stop: threading.Event) -> None:
        """One after the other; there is one machine."""
        for target in targets:
            if stop.is_set():
                return
            arrival = self._ask(target, stop)
            if arrival is not None:
                emit(arrival)

    def _ask(self, target: Target, stop: threading.Event) -> Arrival | None:
        started = time.monotonic()
        said, complained = bytearray(), bytearray()
        limit = self._errand.max_output

        def on_output(chunk: bytes) -> bool:
            said.extend(chunk)
            return len(said) <= limit

        def on_error(chunk: bytes) -> None:
            complained.extend(chunk)
            del complained[:-8192]

        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = sys.executable.rpartition("/")[0]
        environment = {"PATH": f"{own}:{_PATH}", "LC_ALL": "C.UTF-8", **kept}
        try:
            follow(
                remote_argv(self._errand, target.stage), environment,
                started + self._errand.timeout_s + 6, stop, on_output, on_error,
            )  # fmt: skip
        except Ended as ended:
            if ended.why == "stopped":
                return None
            if ended.why == "time-out":
                detail = f"no answer within {self._errand.timeout_s:g} s"
                return no_answer(target, self.name, Answer.TIMED_OUT, detail)
        except OSError as error:
            return no_answer(target, self.name, Answer.REFUSED, f"can't start: {error}")
        seconds = time.monotonic() - started
        return read_answer(bytes(said), bytes(complained), self._errand, target, self.name, seconds)
