"""What every transport is given, and what it gives back."""

import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from slurm_integration.sweep.model import Answer, NodeResult

CONNECT_S = 10.0
"""Seconds to reach a host and log in, unless ssh_config's ConnectTimeout says otherwise."""
MAX_REPORT = 1 << 20
"""Bytes of a node's answer; a report with its facts has 6 kB, with 400 findings 200."""
MAX_SNAPSHOT = 16 << 20
"""Bytes of a node's answer when its whole snapshot was asked for; usually 130 kB."""


class Target(msgspec.Struct, frozen=True):
    """A node to look at, and what Slurm says of it ("" and 0 where Slurm does not know it)."""

    node: str
    state: str = ""
    stage: str = "sweep"
    partitions: tuple[str, ...] = ()
    gpus: int = 0
    host: str = ""
    """What the machine calls itself where that is not the node's name (NodeHostName)."""


class Errand(msgspec.Struct, frozen=True):
    """What to run on each node, and within which bounds.

    `program` is flightcheck's name or absolute path there. `timeout_s` bounds one node from the
    first packet to the last. `nonce` marks our own words in whatever a host may print.
    """

    program: str = "flightcheck"
    only: str = ""
    skip: str = ""
    whole: bool = False
    timeout_s: float = 60.0
    fanout: int = 64
    nonce: str = msgspec.field(default_factory=lambda: secrets.token_hex(8))

    @property
    def max_output(self) -> int:
        """Bytes that one node may send."""
        return MAX_SNAPSHOT if self.whole else MAX_REPORT

    def arguments(self, stage: str) -> list[str]:
        """The arguments of flightcheck on the node."""
        argv = ["check", "--json", "--facts", "--stage", stage]
        argv += ["--snapshot"] if self.whole else []
        argv += ["--only", self.only] if self.only else []
        return argv + (["--skip", self.skip] if self.skip else [])


class Arrival(msgspec.Struct, frozen=True):
    """One node's result, and its whole snapshot where that was asked for."""

    result: NodeResult
    snapshot: bytes | None = None


Emit = Callable[[Arrival], None]
"""Called once for each target, from any thread."""


class Transport(Protocol):
    """A way to a node.

    `run` returns when every target has been emitted once. It raises for nothing a node or the
    network does. Once `stop` is set it returns within about two seconds, without an answer for
    whoever has none yet.
    """

    name: str

    def run(self, targets: Sequence[Target], emit: Emit, stop: threading.Event) -> None:
        """Ask all of them."""


def no_answer(
    target: Target, transport: str, answer: Answer, detail: str, seconds: float = 0.0
) -> Arrival:
    """The arrival of a node that gave no report."""
    from healthcheck.report.clean import clean

    return Arrival(
        NodeResult(
            target.node,
            transport,
            answer,
            detail=clean(detail, 300),
            seconds=round(seconds, 3),
            state=target.state,
            stage=target.stage,
        )
    )
