"""Clocks, throttle bits and PCIe links of the GPUs while the test loads them.

Read by the NVML probe in a child of its own, again and again: a driver that hangs under load then
hangs that child.
"""

import time
from typing import Any

from healthcheck.allreduce.model import LoadSample
from healthcheck.host import Host
from healthcheck.reading import Plan as ReadingPlan
from healthcheck.reading import Reading, launch

EVERY_S = 0.5
MOST = 8
LOADED = ("bandwidth", "compute")
PATIENCE_S = 5.0


class Sampler:
    """Takes at most MOST samples of all GPUs, only in the phases that load them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._reading: Reading | None = None
        self._began = 0.0
        self._taken = 0
        self._first = time.monotonic()
        self.samples: list[LoadSample] = []

    def turn(self, now: float, phase: str) -> None:
        """Once a tick: take what has come, and ask anew where it is time."""
        if self._reading is not None:
            self._take(now)
            return
        if phase.startswith(LOADED) and self._taken < MOST and now - self._began >= EVERY_S:
            self._began = now
            self._taken += 1
            self._reading = launch("nvml", self._host, ReadingPlan(stage="prolog"))

    def stop(self) -> None:
        """Leave a reading that is still at work."""
        if self._reading is not None:
            self._reading.abandon()
            self._reading = None

    def _take(self, now: float) -> None:
        reading = self._reading
        assert reading is not None
        reading.take()
        if reading.done:
            self.samples += samples_of(reading.result(), round(self._began - self._first, 2))
            self._reading = None
        elif now - self._began > PATIENCE_S:
            self.stop()
            self._taken = MOST


def samples_of(answer: dict[str, Any], at_s: float) -> list[LoadSample]:
    """One sample a GPU out of what the NVML probe answered; none where it could not read."""
    facts = answer.get("facts")
    gpus = facts.get("gpus") if isinstance(facts, dict) else None
    return [
        LoadSample(
            bus_id=gpu["bus_id"],
            at_s=at_s,
            sm_clock_mhz=gpu.get("sm_clock_mhz"),
            clock_event_reasons=next(iter(gpu.get("clock_event_reasons") or ()), None),
            pcie_generation=gpu.get("pcie_generation"),
            pcie_width=gpu.get("pcie_width"),
            temperature_c=gpu.get("temperature_c"),
            power_w=gpu.get("power_w"),
        )
        for gpu in gpus or ()
        if gpu.get("bus_id")
    ]
