"""One node's agent at the table's head: who is there, and one test after the other."""

import hmac
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from healthcheck import __version__
from healthcheck.report.clean import clean
from slurm_integration.allreduce_nodes.agent import OTHER_VERSION
from slurm_integration.allreduce_nodes.model import Kind, Measured, NodeResult
from slurm_integration.allreduce_nodes.order import Hello, Order
from slurm_integration.allreduce_nodes.step import Step
from slurm_integration.allreduce_nodes.wire import Line

SLACK_S = 4.0
"""An agent answers a little after its test's own limit."""
ENDS = ("corrupt", "died", "hung", "could-not-start", "unfinished")
"""Worst first."""
_LATE = "hung up, or gave no answer within the time limit"


class Seat:
    """An agent that is there."""

    def __init__(self, name: str, line: Line, hello: Hello) -> None:
        self.name = name
        self.line = line
        self.hello = hello
        self.port = hello.port


class Coordinator:
    """The agents, and what can be asked of them. `tell` gets lines for a person who waits."""

    def __init__(self, step: Step, listener: socket.socket, tell: Callable[[str], None]) -> None:
        self.step = step
        self.seats: dict[str, Seat] = {}
        self.own_faults: dict[str, str] = {}
        self._listener = listener
        self._tell = tell
        self._asked = 0

    def gather(self, until: float) -> tuple[str, ...]:
        """Wait until every node is here or `until` (monotonic) has come; who is absent."""
        waiting: list[Line] = []
        most = 4 * len(self.step.nodes) + 16
        with selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            while len(self.seats) < len(self.step.nodes) and time.monotonic() < until:
                for key, _ in ready.select(min(0.5, max(0.0, until - time.monotonic()))):
                    if key.fileobj is self._listener:
                        self._answer(waiting, ready, most)
                        continue
                    line: Line = key.fileobj  # type: ignore[assignment]
                    greeting = line.receive()
                    if greeting or line.closed:
                        ready.unregister(line)
                        waiting.remove(line)
                        self._seat(line, greeting)
        for line in waiting:
            line.close()
        self._listener.close()
        return tuple(name for name in self.step.nodes if name not in self.seats)

    def _answer(self, waiting: list[Line], ready: selectors.BaseSelector, most: int) -> None:
        """Take a call. Who has said nothing for longest makes room: strangers keep nobody out."""
        try:
            line = Line(self._listener.accept()[0])
        except OSError:
            return  # hung up again, or no handle left for it
        if len(waiting) >= most:
            silent = waiting.pop(0)
            ready.unregister(silent)
            silent.close()
        waiting.append(line)
        ready.register(line, selectors.EVENT_READ)

    def _seat(self, line: Line, greeting: list[dict[str, object]]) -> None:
        """Let an agent in, or turn away what is none."""
        try:
            hello = msgspec.convert(greeting[0], Hello)
            name = self.step.nodes[hello.index]
        except (IndexError, msgspec.ValidationError):
            line.close()
            return
        known = hmac.compare_digest(hello.key.encode(), self.step.key.encode())
        if not known or name in self.seats or not line.send("welcome"):
            line.close()
            return
        self.seats[name] = Seat(name, line, hello)
        if hello.version != __version__:
            words = OTHER_VERSION.format(theirs=clean(hello.version), ours=__version__)
            self.own_faults[name] = words
        elif hello.trouble or not hello.local:
            self.own_faults[name] = clean(hello.trouble or "has no ranks to offer")

    def able(self) -> tuple[str, ...]:
        """Nodes that can be tested, in Slurm's order."""
        return tuple(
            name for name in self.step.nodes if name in self.seats and name not in self.own_faults
        )

    def one_backend(self) -> None:
        """Nodes with another backend than most cannot be tested with them; they are at fault."""
        backends = [self.seats[name].hello.backend for name in self.able()]
        usual = max(set(backends), key=backends.count, default="")
        for name in self.able():
            own = self.seats[name].hello.backend
            if own != usual:
                self.own_faults[name] = f"would run {own} where the others run {usual}"

    def measure(
        self, groups: Iterable[Sequence[str]], kind: Kind, turn: int, seconds: float, *, light: bool
    ) -> list[Measured]:
        """Test these disjoint groups at once; how each ended within `seconds` (+ SLACK_S)."""
        began = time.monotonic()
        orders: dict[int, list[str]] = {}
        lost: set[str] = set()
        for group in groups:
            self._asked += 1
            orders[self._asked] = list(group)
            lost |= self._order(self._asked, list(group), kind, seconds, light=light)
        told = ", ".join("–".join(group) for group in orders.values())
        self._tell(f"{kind}: {told}" if kind != "whole" else f"all {len(group)} nodes together")
        answers = self._collect(orders, began + seconds + SLACK_S, lost)
        took = round(time.monotonic() - began, 2)
        for name in lost:
            self._leave(name)
        for results in answers.values():
            for name, result in results.items():
                if result.own_fault:
                    self.own_faults[name] = clean(result.own_fault, 400)
        return [
            merge(names, kind, turn, answers[number], lost & {*names}, took)
            for number, names in orders.items()
        ]

    def _order(
        self, number: int, names: list[str], kind: Kind, seconds: float, *, light: bool
    ) -> set[str]:
        """Tell a group what to do; who could not be told."""
        host = next((n for n in names if n != self.step.name), names[0])
        store = self._address(host, names)
        seed = int.from_bytes(os.urandom(7), "little")
        ranks = sum(self.seats[name].hello.local for name in names)
        first, lost = 0, set()
        for name in names:
            seat = self.seats[name]
            order = Order(
                id=number, first=first, ranks=ranks, store_host=store,
                store_port=max(1024, self.seats[host].port), serve=name == host,
                address=self._address(name, names), seed=seed, seconds=seconds, light=light,
                alone=kind == "alone",
            )  # fmt: skip
            first += seat.hello.local
            if not seat.line.send("order", **msgspec.to_builtins(order)):
                lost.add(name)
        return lost

    def _address(self, name: str, names: Sequence[str]) -> str:
        """Where its partners reach a node: for this one, the address they have reached it by."""
        if name != self.step.name:
            return self.seats[name].line.peer()
        other = next((n for n in (*names, *self.seats) if n != name and n in self.seats), name)
        return self.seats[other].line.own()

    def _collect(
        self, orders: Mapping[int, list[str]], until: float, lost: set[str]
    ) -> dict[int, dict[str, NodeResult]]:
        """Everybody's results; who hangs up joins `lost`, who does not answer in time too."""
        answers: dict[int, dict[str, NodeResult]] = {number: {} for number in orders}
        place = {name: number for number, names in orders.items() for name in names}
        missing = {name for name in place if name not in lost}
        with selectors.DefaultSelector() as ready:
            for name in missing:
                ready.register(self.seats[name].line, selectors.EVENT_READ, name)
            late = False
            while missing and not late:
                left = until - time.monotonic()
                late = left <= 0  # an answer that is here by now counts, however late we come
                for key, _ in ready.select(min(left, 1.0)):
                    name = key.data
                    result = self._result(self.seats[name], place[name])
                    if result is not None:
                        answers[place[name]][name] = result
                    if self.seats[name].line.closed:
                        lost.add(name)
                    if result is not None or name in lost:
                        ready.unregister(key.fileobj)
                        missing.discard(name)
        lost |= missing
        return answers

    def _result(self, seat: Seat, number: int) -> NodeResult | None:
        for message in seat.line.receive():
            try:
                result = msgspec.convert(message, NodeResult)
            except msgspec.ValidationError:
                seat.line.close()
                return None
            if result.id == number:
                seat.port = result.port
                return result
        return None

    def _leave(self, name: str) -> None:
        """It did not answer: no more is asked of it."""
        self.seats.pop(name).line.close()

    def goodbye(self, code_of: Callable[[str], int]) -> None:
        """Send everybody home, each with its exit code."""
        for name, seat in self.seats.items():
            seat.line.send("bye", code=code_of(name))
            seat.line.close()


def merge(
    names: Sequence[str], kind: Kind, turn: int, answers: Mapping[str, NodeResult],
    lost: Iterable[str], took: float,
) -> Measured:  # fmt: skip
    """One test's end from what its nodes told: the worst of them, the slowest figure. Pure."""
    gone = tuple(name for name in names if name in {*lost})
    results = list(answers.items())
    worst = next(((name, r) for end in ENDS for name, r in results if _end(r) == end), None)
    figures = [r.busbw_gb_s for _, r in results if r.busbw_gb_s is not None]
    if gone:
        end, reason = "lost", f"{', '.join(gone)}: {_LATE}"
    elif worst is not None:
        end, reason = _end(worst[1]), f"{worst[0]}: {clean(worst[1].reason, 300)}"
    else:
        end, reason = "ok", ""
    return Measured(
        nodes=tuple(names),
        kind=kind,
        round=turn,
        end=end,
        busbw_gb_s=min(figures) if figures and end == "ok" else None,
        reason=reason,
        lost=gone,
        seconds=took,
    )


def _end(result: NodeResult) -> str:
    """A word that is none of ours is no pass."""
    return result.end if result.end in ("ok", *ENDS) else "unfinished"
