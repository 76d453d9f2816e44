"""What a sweep knows of each node, and of the fleet. Frozen; JSON both ways."""

from enum import StrEnum
from typing import Any

import msgspec

from healthcheck.model import Severity, Verdict
from healthcheck.strict_json import decode_json

FORM = 1
"""The version of a sweep's JSON."""


class Answer(StrEnum):
    """What came back from a node. Only `reported` says anything about its health."""

    REPORTED = "reported"
    UNREACHABLE = "unreachable"
    """No such name, no route, or nobody there."""
    REFUSED = "refused"
    """Somebody is there and would not have us: port closed, login or allocation refused."""
    WRONG_HOST_KEY = "wrong-host-key"
    """Another key than the one known: nothing was sent."""
    UNKNOWN_HOST_KEY = "unknown-host-key"
    """No key is known for this host: nothing was sent."""
    NOT_INSTALLED = "not-installed"
    OTHER_VERSION = "other-version"
    TIMED_OUT = "timed-out"
    GARBAGE = "garbage"
    """Output that is no report of ours; `detail` shows how it begins."""
    TOO_MUCH_OUTPUT = "too-much-output"
    INTERRUPTED = "interrupted"
    """Somebody ended the sweep before this node had answered."""


class NodeResult(msgspec.Struct, frozen=True):
    """One node's part of a sweep.

    `transport` is srun, ssh or local. `report` is what `flightcheck check --json` wrote there,
    checked for its form, and there for `reported` alone. `facts` is what the fleet is compared
    by (healthcheck.report.facts.Facts as plain data). `detail`: one clean line about any other
    answer. `seconds`: from asking to answering.
    """

    node: str
    transport: str
    answer: Answer
    report: dict[str, Any] | None = None
    facts: dict[str, Any] | None = None
    detail: str = ""
    seconds: float = 0.0
    state: str = ""
    """Slurm's word for the node when the sweep began (`IDLE+DRAIN`); "" where Slurm has none."""
    stage: str = ""
    """Which checks were asked for: sweep, or the cheap ones of a prolog beside a job."""

    @property
    def verdict(self) -> Verdict | None:
        """The node's verdict, or None where it gave none: never a no-go."""
        return Verdict(self.report["verdict"]) if self.report else None

    @property
    def profile(self) -> str:
        """The node type, "" where unknown."""
        return str(self.report["profile"]) if self.report else ""

    def findings(self, severity: Severity | None = None) -> list[tuple[str, dict[str, Any]]]:
        """(check, finding) pairs of the report, worst first."""
        order = {"fail": 0, "warn": 1, "info": 2}
        pairs = [
            (str(outcome["check"]), finding)
            for outcome in (self.report or {}).get("outcomes", ())
            for finding in outcome["findings"]
            if severity is None or finding["severity"] == severity
        ]
        return sorted(pairs, key=lambda pair: order.get(pair[1]["severity"], 3))


class FleetFinding(msgspec.Struct, frozen=True):
    """One statement about several nodes, or about one that differs from its peers.

    `kind`: common-cause (a rack or switch fails alike), drift (versions differ), outlier.
    `group` is whom they were compared with: a node type, a rack or a leaf switch. `nodes` are
    those the statement is about. Never drains: it is told to people.
    """

    kind: str
    severity: Severity
    subject: str
    group: str
    nodes: tuple[str, ...]
    message: str
    measured: str | float | None = None
    expected: str | float | None = None


class Metric(msgspec.Struct, frozen=True):
    """One figure of every node of a type, for plots and outliers. `values`: node → figure."""

    name: str
    unit: str
    group: str
    median: float
    mad: float
    low: float | None
    high: float | None
    """Beyond these a node is an outlier; None where that side means no harm."""
    values: dict[str, float]


class Comparison(msgspec.Struct, frozen=True):
    """What the nodes say about each other."""

    findings: tuple[FleetFinding, ...] = ()
    metrics: tuple[Metric, ...] = ()


class Action(msgspec.Struct, frozen=True):
    """What was done, or would be done in a dry run, about some nodes.

    `what`: drained, would-drain, held-by-us, held-by-others, over-budget, alert, failed.
    """

    what: str
    nodes: tuple[str, ...]
    reason: str


class Sweep(msgspec.Struct, frozen=True):
    """A whole sweep. `started_at` is unix time. Results are in the order of the node set."""

    started_at: float
    seconds: float
    stage: str
    results: tuple[NodeResult, ...]
    interrupted: bool = False
    comparison: Comparison = Comparison()
    actions: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()
    form: int = FORM
    version: str = ""
    """Of the flightcheck that swept."""


class SweepError(Exception):
    """A sweep that can't begin; the text says what was expected, found and what to do."""


def encode_sweep(sweep: Sweep) -> bytes:
    """The sweep as one line of JSON."""
    return msgspec.json.encode(sweep)


def decode_sweep(data: bytes) -> Sweep:
    """A sweep from its JSON. Raises ValueError that says what is wrong with it."""
    try:
        sweep = decode_json(data, Sweep)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a sweep of `flightcheck sweep --json`: {error}") from error
    if sweep.form != FORM:
        raise ValueError(f"expected a sweep of form {FORM}, found {sweep.form}: sweep again")
    return sweep
