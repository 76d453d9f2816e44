"""A real Slurm cluster that is broken and healed, batch after batch."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from healthcheck.baseline import FILE
from healthcheck.config import Config, load_config
from healthcheck.model import Report
from slurm_integration.drill.model import Case, Played
from slurm_integration.drill.play import judge
from slurm_integration.node_state import NodeState
from slurm_integration.policy import Do, decide
from slurm_integration.sandbox import cluster, on_node, sshd
from slurm_integration.sandbox.cluster import SandboxError
from slurm_integration.sandbox.faults.registry import Fault, find_fault
from slurm_integration.sandbox.machine.files_system import settings_text
from slurm_integration.sandbox.machine.live import (
    STATE,
    Record,
    break_machine,
    build_machine,
    machine_of,
    read_record,
    show_record,
    take_baseline,
)
from slurm_integration.sandbox.machine.types import NODE_TYPES

WAIT_S = 60.0
_POLICY = """dry_run = false
{own}
[drain]
max_nodes = 64
max_percent = 100
max_held_percent = 100
jitter_s = 0
"""


def _with_job(fault: Fault, stage: str) -> Fault:
    """Jobs here are given all GPUs: one that is gone is also one that the job was promised."""
    if stage in ("prolog", "epilog") and "gpu-count" in (fault.check, *fault.also):
        return msgspec.structs.replace(fault, also=(*fault.also, "gpu-presence"))
    return fault


class Yard:
    """A cluster whose nodes are as healthy before each batch as when they were built."""

    def __init__(self, state: Path, kind: str, nodes: int) -> None:
        self.state = state
        program = Path(sys.executable)
        spec = cluster.ClusterSpec(
            state=str(state), nodes=nodes, gpus=NODE_TYPES[kind].gpus,
            gpu_type=kind.partition("-")[0],
            epilog=(str(program.with_name("flightcheck-epilog")),),
            health=(str(program.with_name("flightcheck-health")),),
            health_interval_s=60_000,  # only when the drill says so
        )  # fmt: skip
        self.names = spec.names
        self.program = on_node.write_program(state)
        self.daemons: dict[str, sshd.Sshd] = {}
        self.healthy: dict[str, tuple[Record, bytes]] = {}
        for name in self.names:
            record = build_machine(self.root(name), kind, name)
            take_baseline(self.root(name))
            self.healthy[name] = record, self.baseline(name).read_bytes()
        own = settings_text(machine_of(record))
        (state / "flightcheck.toml").write_text(_POLICY.format(own=own))
        self.config: Config = load_config(str(state / "flightcheck.toml"))[0]
        cluster.up(spec)

    def root(self, node: str) -> str:
        """The folder that stands for a node."""
        return f"{self.state}/nodes/{node}/root"

    def baseline(self, node: str) -> Path:
        """What a node remembers of itself."""
        return Path(self.root(node), STATE, FILE)

    def play(self, stage: str, cases: Sequence[Case]) -> Iterator[Played]:
        """One batch: break, let Slurm's hooks meet it, judge, heal."""
        mine = dict(zip(self.names, cases, strict=False))
        try:
            began = time.monotonic()
            reports = {"prolog": self._prologs, "epilog": self._epilogs, "health": self._healths,
                       "sweep": self._sweep}[stage](mine)  # fmt: skip
            nodes = self.nodes()
            for node, case in mine.items():
                report, at = reports[node]
                fault = _with_job(find_fault(case.fault), stage) if case.fault else None
                yield self._judged(case, fault, report, nodes[node], max(0.0, at - began))
        finally:
            self.heal()

    def _judged(
        self, case: Case, fault: Fault | None, report: Report, node: NodeState, seconds: float
    ) -> Played:
        meant, done = decide(report, self.config).do, Do.DRAIN if node.ours else Do.PASS
        played = judge(case, fault, report, meant, seconds)
        if (meant is Do.DRAIN) != (done is Do.DRAIN):
            wrong = f"the decision was {meant.value}, and Slurm shows {node.reason or 'no drain'}"
            played = msgspec.structs.replace(played, wrong=wrong)
        return played

    def _prologs(self, mine: dict[str, Case]) -> dict[str, tuple[Report, float]]:
        self._break(mine)
        since = time.time()
        for node in mine:
            self._submit(node, "true")
        return self._await(mine, "prolog", since)

    def _epilogs(self, mine: dict[str, Case]) -> dict[str, tuple[Report, float]]:
        gate = self.state / "gate"
        begun = time.time()
        jobs = [self._submit(node, f"until [ -e {gate} ]; do sleep 0.1; done") for node in mine]
        self._until(lambda: all(self._state_of(job) == "RUNNING" for job in jobs), "jobs start")
        self._await(mine, "prolog", begun)  # a job runs before its prolog has remembered the node
        self._break(mine)
        since = time.time()
        gate.touch()
        return self._await(mine, "epilog", since)

    def _healths(self, mine: dict[str, Case]) -> dict[str, tuple[Report, float]]:
        self._break(mine)
        since = time.time()
        with ThreadPoolExecutor(len(mine)) as pool:
            hook = f"{self.state}/bin/health"
            list(pool.map(lambda node: self._client("env", f"SLURMD_NODENAME={node}", hook), mine))
        return self._await(mine, "health", since)

    def _sweep(self, mine: dict[str, Case]) -> dict[str, tuple[Report, float]]:
        self._break(mine)
        ours = str(Path(sys.executable).with_name("flightcheck"))
        text = self._client(
            ours, "sweep", "-w", ",".join(mine), "--drain", "--via=ssh", "--json=-",
            f"--program={self.program}", f"--config={self.state}/flightcheck.toml",
            f"--ssh-config={self._ssh()}",
        )  # fmt: skip
        at = time.monotonic()
        results = msgspec.json.decode(text)["results"]
        told = {one["node"]: one for one in results}
        for node in mine:
            if told[node].get("report") is None:
                raise SandboxError(f"{node} gave the sweep no report: {told[node]}")
        return {n: (msgspec.convert(told[n]["report"], Report, strict=False), at) for n in mine}

    def _ssh(self) -> str:
        """sshd on every node: through srun, each sick node's prolog would drain it first."""
        folder = self.state / "ssh"
        if not self.daemons:
            why = sshd.why_not()
            if why:
                raise SandboxError(f"the sweep needs ssh: {why}")
            folder.mkdir()
            for name in self.names:
                environment = {
                    "SLURMD_NODENAME": name,
                    "FLIGHTCHECK_CONFIG": f"{self.state}/flightcheck.toml",
                }
                self.daemons[name] = sshd.start(folder, name, environment=environment)
        return str(sshd.client_config(folder, self.daemons))

    def end(self) -> None:
        """End everything that was started."""
        for daemon in self.daemons.values():
            sshd.stop(daemon)
        cluster.down(str(self.state))

    def _break(self, mine: dict[str, Case]) -> None:
        for node, case in mine.items():
            if case.fault:
                break_machine(self.root(node), case.fault)

    def _await(
        self, mine: dict[str, Case], stage: str, since: float
    ) -> dict[str, tuple[Report, float]]:
        """Each node's report of this stage, and when it was there; then the jobs have ended."""
        found: dict[str, tuple[Report, float]] = {}

        def look() -> bool:
            for node in mine.keys() - found.keys():
                path = Path(self.root(node), STATE, f"{stage}.json")
                try:
                    written = path.stat().st_mtime
                    if written >= since:
                        report = msgspec.json.decode(path.read_bytes(), type=Report, strict=False)
                        found[node] = report, time.monotonic() - (time.time() - written)
                except (OSError, msgspec.MsgspecError):
                    continue
            return len(found) == len(mine)

        self._until(look, f"the {stage}s report")
        return found

    def heal(self) -> None:
        """No job, no drain, no fault, and the memory that each node had."""
        (self.state / "gate").touch()
        self._until(lambda: cluster.no_jobs(str(self.state)), "jobs end")
        for name, (record, baseline) in self.healthy.items():
            if read_record(self.root(name)) != record:
                show_record(self.root(name), record)
            self.baseline(name).write_bytes(baseline)
        self._until(lambda: cluster.in_service(str(self.state)), "nodes are idle")
        (self.state / "gate").unlink()

    def nodes(self) -> dict[str, NodeState]:
        """As Slurm sees them."""
        return {node.name: node for node in cluster.status(str(self.state)).nodes}

    def _submit(self, node: str, script: str) -> int:
        gpus = f"--gres=gpu:{NODE_TYPES[self.healthy[node][0].type].gpus}"
        asked = [gpus] if not gpus.endswith(":0") else []
        return int(self._client("sbatch", "--parsable", "-N1", "--exclusive", "-w", node, *asked,
                                "--output=/dev/null", f"--wrap={script}"))  # fmt: skip

    def _state_of(self, job: int) -> str:
        return self._client("squeue", "-h", "-o", "%T", "-j", str(job))

    def _client(self, *argv: str) -> str:
        done = cluster.client(str(self.state), *argv, timeout_s=WAIT_S)
        return done.stdout.strip()

    def _until(self, what: Callable[[], bool], words: str) -> None:
        until = time.monotonic() + WAIT_S
        while not what():
            if time.monotonic() > until:
                raise SandboxError(f"after {WAIT_S:.0f} s still waiting until {words}")
            time.sleep(0.1)
