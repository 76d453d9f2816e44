"""Where this process stands in a Slurm step: rank, world and rendezvous from the environment.

`man srun`, "OUTPUT ENVIRONMENT VARIABLES". An agent a node takes part, with as many ranks as it
has GPUs; further tasks of the same node have nothing to do.
"""

import hashlib
import re
import socket
from collections.abc import Mapping

import msgspec

from slurm_integration.folded import parts
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.nodeset import expand

FIRST_PORT, PORTS = 20_000, 10_000
"""Below the ports that the kernel hands to clients."""
CANDIDATES = 3
"""Nodes that may coordinate: where two of three are dead, the job is lost anyway."""
SECRET = "FLIGHTCHECK_STEP_SECRET"
"""Set by `--nodes`: whoever connects without it is turned away."""
_STEP = ("SLURM_STEP_ID", "SLURM_STEPID")
_NODES = ("SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST")


class StepError(Exception):
    """The environment is no step's; the text says what is missing."""


class Step(msgspec.Struct, frozen=True):
    """A step, and this task of it. `nodes` in Slurm's order; `index` is this node's place."""

    job: int
    step: int
    nodes: tuple[str, ...]
    index: int
    task: int
    local_task: int
    addresses: dict[str, str] = {}
    key: str = ""

    @property
    def name(self) -> str:
        """This node, as Slurm calls it."""
        return self.nodes[self.index]

    @property
    def candidates(self) -> range:
        """Places of the nodes that may coordinate, first choice first."""
        return range(min(CANDIDATES, len(self.nodes)))

    def port(self, candidate: int) -> int:
        """Where this candidate listens: the same on every node, other in every step."""
        seed = hashlib.sha256(f"flightcheck {self.job} {self.step}".encode()).digest()
        return FIRST_PORT + int.from_bytes(seed[:4], "big") % PORTS + candidate


def several_nodes(environment: Mapping[str, str]) -> bool:
    """Whether this is a task of a step on more than one node."""
    count = _first(environment, ("SLURM_STEP_NUM_NODES",))
    return _first(environment, _STEP).isdigit() and count.isdigit() and int(count) > 1


def spare_task(environment: Mapping[str, str]) -> bool:
    """Whether another task of this step, on this node, does the work."""
    return _first(environment, _STEP).isdigit() and environment.get("SLURM_LOCALID", "0") not in (
        "",
        "0",
    )


def read_step(environment: Mapping[str, str]) -> Step:
    """The step this process is a task of. Raises StepError that names the variable."""
    listed = _first(environment, _NODES)
    try:
        nodes = _in_order(listed)
    except SweepError as error:
        raise StepError(f"{_NODES[0]}: {error}") from error
    index = _number(environment, "SLURM_NODEID")
    if index >= len(nodes):
        raise StepError(f"SLURM_NODEID: expected less than {len(nodes)} ({listed}), found {index}")
    return Step(
        job=_number(environment, "SLURM_JOB_ID", "SLURM_JOBID"),
        step=_number(environment, *_STEP),
        nodes=nodes,
        index=index,
        task=_number(environment, "SLURM_PROCID"),
        local_task=_number(environment, "SLURM_LOCALID"),
        addresses=parse_aliases(environment.get("SLURM_NODE_ALIASES", "")),
        key=environment.get(SECRET, "")[:256],
    )


def parse_aliases(text: str) -> dict[str, str]:
    """Addresses of SLURM_NODE_ALIASES (`node1:[10.0.0.1]:host1,…`), which cloud nodes have."""
    pattern = r"(?:^|,)([^:,\[\]]+):(?:\[([^\]]+)\]|([^:,\[\]]+)):[^:,\[\]]+"
    found = re.findall(pattern, text[: 1 << 20])
    return {name: inner or plain for name, inner, plain in found}


def address_of(step: Step, candidate: int) -> str:
    """An address of a candidate: Slurm's alias, the resolver's answer, else Slurm's NodeAddr.

    The last is one call of scontrol, for clusters whose nodes no resolver knows. Raises StepError.
    """
    name = step.nodes[candidate]
    if name in step.addresses:
        return step.addresses[name]
    try:
        socket.getaddrinfo(name, None)
        return name
    except OSError:
        pass
    from slurm_integration.scontrol import Scontrol

    answer = Scontrol().show_nodes(name)
    found = re.search(r"\bNodeAddr=(\S+)", answer.stdout) if answer.ok else None
    if found is None:
        raise StepError(f"{name}: no resolver knows it, and scontrol names no NodeAddr")
    return found[1]


def _in_order(listed: str) -> tuple[str, ...]:
    """The nodes in Slurm's own order, which SLURM_NODEID counts."""
    if not listed:
        raise SweepError("not set; this runs as `srun flightcheck allreduce` within a job")
    return tuple(dict.fromkeys(n for part in parts(listed) for n in expand(part, _NODES[0])))


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _number(environment: Mapping[str, str], *names: str) -> int:
    text = _first(environment, names)
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise StepError(f"{names[0]}: expected a number as srun sets it, found {text[:40]!r}")
    return int(text)
