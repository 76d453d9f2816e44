"""Rounds one after the other, until somebody says stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from slurm_integration.requalify.round import Requalifier, Round, SlurmError
from slurm_integration.requalify.store import StoreError


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set. A second SIGINT interrupts a look under way."""
    stop = threading.Event()

    def told(number: int, _: FrameType | None) -> None:
        again = stop.is_set()
        stop.set()
        if again and number == signal.SIGINT:
            raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, told) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def watch(
    requalifier: Requalifier,
    interval_s: float,
    stop: threading.Event,
    tell: Callable[[Round], None],
    complain: Callable[[str], None],
) -> None:
    """A round every `interval_s`. A Slurm that is away, or a full disk, is told and outlasted."""
    while not stop.is_set():
        try:
            tell(requalifier.round())
        except (SlurmError, StoreError) as error:
            complain(str(error))
        stop.wait(interval_s)
