"""Ask every target through its transport, hand results over as they come, keep them all."""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slurm_integration.sweep.model import Answer, NodeResult, SweepError
from slurm_integration.sweep.routes import Routes
from slurm_integration.sweep.transports.base import Arrival, Target, Transport, no_answer

_TICK_S = 0.2
_LEAVE_S = 8.0
"""srun is given 2 s to end, and scancel 5."""
_UNSENT = (Answer.REFUSED, Answer.UNREACHABLE)
Show = Callable[[NodeResult], None]
Keep = Callable[[str, bytes], None]
Reroute = Callable[[Sequence[Target], int], Routes]
"""Unanswered targets of srun and the number of the round → where they go next."""


class Gathered(msgspec.Struct, frozen=True):
    """All results in the order of the targets. `interrupted`: somebody ended it early."""

    results: tuple[NodeResult, ...]
    interrupted: bool


class Engine:
    """One sweep's run.

    `transports` maps a name to a function that makes it: ssh is only set up where it is needed.
    `reroute` gives nodes that srun could not reach a second chance; a step over many nodes fails
    as a whole when one of them was taken, or its prolog failed, in between.
    """

    def __init__(
        self,
        transports: Mapping[str, Callable[[], Transport]],
        show: Show,
        keep: Keep | None = None,
        reroute: Reroute | None = None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self._makers = transports
        self._made: dict[str, Transport] = {}
        self._show = show
        self._keep = keep
        self._reroute = reroute
        self._tick = tick or (lambda: None)
        self._arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._results: dict[str, NodeResult] = {}
        self._again: dict[str, Arrival] = {}
        self._threads: list[threading.Thread] = []

    def run(self, targets: Sequence[Target], routes: Routes) -> Gathered:
        """Ask all of them. Ctrl-C (KeyboardInterrupt) keeps what has arrived."""
        by_name = {target.node: target for target in targets}
        interrupted = False
        try:
            for number in range(1, 4):
                self._refuse(routes)
                last = self._reroute is None or number == 3
                self._round(routes, by_name, first=number == 1, last=last)
                if not self._again or self._reroute is None:
                    break
                failed, self._again = self._again, {}
                again = [by_name[name] for name in failed]
                routes = self._reroute(again, number)
                routes = self._with_reasons(routes, failed)
                by_name |= {t.node: t for way in routes.ways.values() for t in way}
        except KeyboardInterrupt:
            interrupted = True
            self._stop.set()
            self._leave()
        for name, arrival in self._again.items():
            self._results.setdefault(name, arrival.result)
        for target in targets:
            if target.node not in self._results:
                self._results[target.node] = _left_out(target, interrupted=interrupted)
        return Gathered(tuple(self._results[target.node] for target in targets), interrupted)

    @property
    def used(self) -> Sequence[Transport]:
        """The transports that were needed, for their notes."""
        return list(self._made.values())

    def _refuse(self, routes: Routes) -> None:
        for target, why in routes.refused:
            self._take(no_answer(target, "srun", Answer.REFUSED, why), by=None, last=True)

    def _with_reasons(self, routes: Routes, failed: Mapping[str, Arrival]) -> Routes:
        """A node that is refused now keeps what srun said of it, where that says more."""
        refused = tuple(
            (target, f"{why} (srun: {failed[target.node].result.detail})")
            for target, why in routes.refused
        )
        return Routes(routes.ways, refused)

    def _round(
        self, routes: Routes, by_name: Mapping[str, Target], *, first: bool, last: bool
    ) -> None:
        threads = self._threads = []
        for way, targets in routes.ways.items():
            try:
                if way not in self._made:
                    self._made[way] = self._makers[way]()
            except SweepError as error:
                if first:
                    raise
                # What others have answered by now must not be lost to a broken ssh_config.
                for target in targets:
                    told = no_answer(target, way, Answer.UNREACHABLE, str(error))
                    self._take(told, by_name, last=True)
                continue
            threads.append(
                threading.Thread(
                    target=self._made[way].run,
                    args=(targets, self._arrivals.put, self._stop),
                    daemon=True,
                )
            )
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self._next(by_name, _TICK_S, last=last)
        while self._next(by_name, 0.0, last=last):
            pass

    def _next(self, by_name: Mapping[str, Target], wait_s: float, *, last: bool) -> bool:
        try:
            arrival = self._arrivals.get(timeout=wait_s) if wait_s else self._arrivals.get_nowait()
        except queue.Empty:
            self._tick()
            return False
        self._take(arrival, by_name, last=last)
        return True

    def _take(self, arrival: Arrival, by: Mapping[str, Target] | None, *, last: bool) -> None:
        result = arrival.result
        if result.node in self._results or (by is not None and result.node not in by):
            return
        if not last and result.transport == "srun" and result.answer in _UNSENT:
            self._again[result.node] = arrival
            return
        self._results[result.node] = result
        if arrival.snapshot is not None and self._keep is not None:
            self._keep(result.node, arrival.snapshot)
        self._show(result)

    def _leave(self) -> None:
        """After an interruption: let the transports end what they started (an srun left behind
        would keep its nodes), and take what is on its way. A second Ctrl-C does not wait.
        """
        until = time.monotonic() + _LEAVE_S
        try:
            for thread in self._threads:
                thread.join(max(0.0, until - time.monotonic()))
            while not self._arrivals.empty():
                self._take(self._arrivals.get_nowait(), None, last=True)
        except KeyboardInterrupt:
            return


def _left_out(target: Target, *, interrupted: bool) -> NodeResult:
    if interrupted:
        answer, detail = Answer.INTERRUPTED, "the sweep ended before it answered"
    else:
        answer, detail = Answer.GARBAGE, "flightcheck's own transport failed: see its traceback"
    return no_answer(target, "", answer, detail).result
