"""The nouns of the test across nodes. Nodes go by the names that Slurm gives them."""

from typing import Literal

import msgspec

from healthcheck.model import Verdict

Kind = Literal["whole", "alone", "pair"]


class Measured(msgspec.Struct, frozen=True):
    """One test of some nodes together. `kind` pair: two nodes, or the three of an odd count.

    `end` is how it ended: ok, corrupt, died, hung, could-not-start, unfinished, or lost (a node
    no longer answered; `lost` says which). `busbw_gb_s` (GB = 1e9) is that of the slowest node at
    the largest size, None where nothing was timed.
    """

    nodes: tuple[str, ...]
    kind: Kind
    round: int
    end: str
    busbw_gb_s: float | None = None
    reason: str = ""
    lost: tuple[str, ...] = ()
    seconds: float = 0.0


class Fault(msgspec.Struct, frozen=True):
    """What is to blame: a node, the link of two nodes, or the set as a whole.

    `words` is a whole sentence with the figures behind it.
    """

    kind: Literal["node", "link", "set"]
    nodes: tuple[str, ...]
    words: str


class Rule(msgspec.Struct, frozen=True):
    """When a test counts as slow: below `fraction` of the reference.

    `expected_gb_s` is the reference where the site knows it; else it is what the better pairs of
    this run reach.
    """

    expected_gb_s: float | None = None
    fraction: float = 0.8


class Conclusion(msgspec.Struct, frozen=True):
    """What all tests of a run add up to."""

    verdict: Verdict
    faults: tuple[Fault, ...]
    reference_gb_s: float | None
    notes: tuple[str, ...] = ()

    def blamed(self) -> tuple[str, ...]:
        """The nodes that are at fault by themselves."""
        return tuple(node for fault in self.faults if fault.kind == "node" for node in fault.nodes)


class NodeResult(msgspec.Struct, frozen=True):
    """What one agent answers about one test. `own_fault`: why this very node is to blame."""

    id: int
    end: str
    reason: str = ""
    cause: str = ""
    busbw_gb_s: float | None = None
    own_fault: str = ""
    port: int = 0
    """A port that was free there a moment ago, for the next meeting."""


class RunReport(msgspec.Struct, frozen=True):
    """Everything: `flightcheck allreduce --json` on several nodes."""

    verdict: str
    conclusion: Conclusion
    nodes: tuple[str, ...]
    absent: tuple[str, ...]
    tests: tuple[Measured, ...]
    coordinator: str
    backend: str
    ranks: int
    duration_s: float
