"""The agent of one node: finds the coordinator, runs what it is told, answers, leaves."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from healthcheck import __version__
from slurm_integration.allreduce_nodes.model import NodeResult
from slurm_integration.allreduce_nodes.order import Hello, Order
from slurm_integration.allreduce_nodes.step import Step, StepError, address_of
from slurm_integration.allreduce_nodes.wire import Line

RETRY_S = 0.2
TRY_S = 3.0
OTHER_VERSION = "runs flightcheck {theirs}, the coordinator {ours}: install the same on all nodes"


class Work(Protocol):
    """This node's share of the tests."""

    local: int
    backend: str
    trouble: str

    def warm(self) -> None:
        """Get ready for the first order: there will be one."""

    def measure(self, order: Order) -> NodeResult:
        """Run one test; never raises."""

    def close(self) -> None:
        """End what still runs."""


class NoCoordinatorError(Exception):
    """Nobody who could coordinate answered; the text says who was asked."""


def listen(step: Step) -> socket.socket | None:
    """Where others find this node, should it come to coordinate; None for the other nodes.

    Raises StepError where the port is taken.
    """
    if step.index not in step.candidates:
        return None
    port = step.port(step.index)
    try:
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise StepError(f"{step.name}: cannot listen on port {port}: {error.strerror}") from error


def find(step: Step, hello: Hello, candidate: int, until: float) -> Line | None:
    """A line to this candidate, which has said that it coordinates; None where it did not."""
    where: str | None = None
    while (left := until - time.monotonic()) > 0:
        try:
            where = where or address_of(step, candidate)
            line = Line(socket.create_connection((where, step.port(candidate)), min(left, TRY_S)))
        except (OSError, StepError):
            time.sleep(min(RETRY_S, left))
            continue
        if line.send("hello", **msgspec.to_builtins(hello)):
            answer = line.wait(until)
            if answer is not None and answer["t"] == "welcome":
                return line
        line.close()
        time.sleep(RETRY_S)
    return None


def introduce(step: Step, work: Work) -> Hello:
    """What this agent says of itself."""
    return Hello(
        index=step.index, local=work.local, backend=work.backend, port=free_port(),
        version=__version__, key=step.key, trouble=work.trouble[:1000],
    )  # fmt: skip


def serve(line: Line, work: Work, deadline: float, step: Step) -> int:
    """Do what comes until the coordinator says goodbye; the exit code it gives.

    Raises NoCoordinatorError where it goes away or says nothing until the deadline.
    """
    try:
        work.warm()
        for order in _orders(line, deadline):
            if isinstance(order, int):
                return order
            result = work.measure(order)
            line.send("result", **msgspec.to_builtins(msgspec.structs.replace(
                result, id=order.id, reason=result.reason[:500], port=free_port()
            )))  # fmt: skip
    finally:
        work.close()
        line.close()
    raise NoCoordinatorError(
        f"{step.name}: the coordinating node went away, or said nothing until the time was up"
    )


def _orders(line: Line, deadline: float) -> Iterator[Order | int]:
    while (message := line.wait(deadline)) is not None:
        if message["t"] == "bye":
            code = message.get("code")
            yield code if isinstance(code, int) and 0 <= code <= 3 else 3
            return
        try:
            yield msgspec.convert(message, Order)
        except msgspec.ValidationError:
            return


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def join(
    step: Step, work: Work, join_s: float, deadline: float,
    coordinate: Callable[[], int], tell: Callable[[str], None],
) -> int:  # fmt: skip
    """Take part under the first candidate that answers, or become it; the exit code.

    Raises NoCoordinatorError.
    """
    hello = introduce(step, work)
    for candidate in step.candidates:
        if candidate == step.index:
            return coordinate()
        until = min(time.monotonic() + join_s, deadline)
        line = find(step, hello, candidate, until)
        if line is not None:
            return serve(line, work, deadline, step)
        tell(
            f"{step.name}: no answer from {step.nodes[candidate]} "
            f"(port {step.port(candidate)}) within {join_s:.0f} s"
        )
    work.close()
    asked = ", ".join(step.nodes[candidate] for candidate in step.candidates)
    raise NoCoordinatorError(f"{step.name}: none of {asked} answers; nothing was tested")
