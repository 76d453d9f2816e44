"""One task of the step, from its first look at the node to its exit code."""

import os
import signal
import socket
import sys
import time
from typing import NamedTuple

import click
import msgspec

from healthcheck.report.clean import clean
from slurm_integration.allreduce_nodes.agent import (
    NoCoordinatorError,
    Work,
    find,
    introduce,
    join,
    listen,
    serve,
)
from slurm_integration.allreduce_nodes.coordinator import Coordinator
from slurm_integration.allreduce_nodes.flight import Flight, Localise
from slurm_integration.allreduce_nodes.model import Rule, RunReport
from slurm_integration.allreduce_nodes.report import to_text
from slurm_integration.allreduce_nodes.step import Step, StepError

NO_VERDICT = 3


class Terms(NamedTuple):
    """How long to wait, what counts as slow, and how to answer."""

    deadline: float
    """Monotonic."""
    join_s: float
    rule: Rule
    localise: Localise
    as_json: bool


def take_part(step: Step, work: Work, terms: Terms) -> int:
    """Join the others, or coordinate them; the exit code of this task.

    0 to 3 as in `check`: the coordinator's is the verdict on the set, a node's own is 2 where it
    is to blame and 0 else, so that srun names the nodes in question.
    """
    began = time.monotonic()
    try:
        listener = listen(step)
        return join(
            step, work, terms.join_s, terms.deadline,
            lambda: _coordinate(step, work, terms, listener, began), _tell,
        )  # fmt: skip
    except (NoCoordinatorError, StepError) as error:
        _tell(str(error))
        return NO_VERDICT
    finally:
        work.close()


def _coordinate(
    step: Step, work: Work, terms: Terms, listener: socket.socket | None, began: float
) -> int:
    assert listener is not None  # a candidate listens
    own = _own_agent(step, work, terms, listener)
    try:
        table = Coordinator(step, listener, _tell)
        absent = table.gather(min(time.monotonic() + terms.join_s, terms.deadline))
        for name in absent:
            _tell(f"{name} did not show up within {terms.join_s:.0f} s")
        backends = [seat.hello.backend for seat in table.seats.values()]
        ranks = sum(seat.hello.local for seat in table.seats.values())
        flight = Flight(table, terms.rule, terms.localise, terms.deadline, _tell)
        conclusion = flight.fly(absent)
        report = RunReport(
            verdict=conclusion.verdict.value, conclusion=conclusion, nodes=step.nodes,
            absent=absent, tests=tuple(flight.tests), coordinator=step.name,
            backend=backends[0] if backends else "", ranks=ranks,
            duration_s=round(time.monotonic() - began, 2),
        )  # fmt: skip
        _print(report, terms)
        blamed = conclusion.blamed()
        table.goodbye(lambda name: 2 if name in blamed else 0)
        return conclusion.verdict.exit_code
    finally:
        _end(own)


def _own_agent(step: Step, work: Work, terms: Terms, listener: socket.socket) -> int:
    """This node's own agent, a process of its own: it is busy while others are listened to."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = NO_VERDICT
    try:
        os.setsid()
        listener.close()
        here = msgspec.structs.replace(step, addresses={step.name: "127.0.0.1"})
        until = min(time.monotonic() + terms.join_s, terms.deadline)
        line = find(here, introduce(step, work), step.index, until)
        code = serve(line, work, terms.deadline, here) if line is not None else NO_VERDICT
    except NoCoordinatorError:
        pass  # the parent is gone, and with it whoever would read this
    finally:
        os._exit(code)


def _end(pid: int, grace_s: float = 3.0) -> None:
    """Wait for the own agent; kill it where it does not come."""
    until = time.monotonic() + grace_s
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() >= until:
            os.kill(pid, signal.SIGKILL)
            until += 1e6
        time.sleep(0.02)


def _print(report: RunReport, terms: Terms) -> None:
    if terms.as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        click.echo(to_text(report, terms.rule))
    sys.stdout.flush()


def _tell(text: str) -> None:
    sys.stderr.write(f"flightcheck: {clean(text)}\n")
    sys.stderr.flush()
