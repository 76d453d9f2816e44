"""A real Slurm cluster on this machine: up, status, down."""

import os
import random
import re
import shutil
import socket
import subprocess  # noqa: TID251 - the sandbox runs Slurm's own commands
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.sandbox.cluster import processes
from slurm_integration.sandbox.cluster.render import slurm_release, write
from slurm_integration.sandbox.cluster.spec import ClusterSpec, SandboxError

NEEDED = ("munged", "slurmctld", "slurmd", "scontrol")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SPEC = "cluster.json"
_STARTED = re.compile(r"\bslurm(?:ctld|d) version \S+ started\b")
_FIRST_PORT, _LAST_PORT = 20_000, 31_000
"""Below the ports that the kernel hands to clients."""


class ClusterStatus(msgspec.Struct, frozen=True):
    """What is there of a sandbox. `nodes` is empty where slurmctld does not answer."""

    spec: ClusterSpec | None
    processes: int
    nodes: tuple[NodeState, ...]

    @property
    def running(self) -> bool:
        """Whether any process of the sandbox lives."""
        return self.processes > 0

    @property
    def ready(self) -> bool:
        """Whether slurmctld answers and every node has registered."""
        bad = {"UNKNOWN", "DOWN"}
        return bool(self.nodes) and not any(
            node.base in bad or "NOT_RESPONDING" in node.flags or "*" in node.suffix
            for node in self.nodes
        )


def why_not() -> str | None:
    """Why no cluster can be started on this machine; None where one can."""
    if os.geteuid() != 0:
        return "the sandbox cluster needs root: slurmd and munged run as root"
    missing = [name for name in NEEDED if shutil.which(name, path=_PATH) is None]
    if missing:
        return (
            f"{', '.join(missing)} not found; on Debian: "
            "apt-get install --no-install-recommends slurm-wlm munge"
        )
    return None


def up(spec: ClusterSpec, timeout_s: float = 30.0) -> ClusterStatus:
    """Start the cluster and wait until every node is registered.

    Raises SandboxError; nothing is left running then.
    """
    reason = why_not()
    if reason:
        raise SandboxError(reason)
    if processes.find(spec.state):
        raise SandboxError(f"a sandbox already runs in {spec.state}; end it with `sandbox down`")
    trouble = ""
    for _ in range(3):
        write(spec, _free_ports(spec.nodes + 1))
        Path(spec.state, _SPEC).write_bytes(msgspec.json.encode(spec))
        try:
            return _start(spec, time.monotonic() + timeout_s)
        except _DaemonEndedError as error:
            # Most likely somebody took a port in between: other ports, once more.
            trouble = str(error)
            processes.end(spec.state)
        except BaseException:
            processes.end(spec.state)
            raise
    raise SandboxError(f"{trouble}\n{_logs(spec)}")


def down(state: str, *, remove: bool = False) -> int:
    """End every process of the sandbox; with `remove` its folder goes too.

    Returns how many processes were ended. Raises SandboxError where one can't be.
    """
    try:
        ended = processes.end(state)
    except TimeoutError as error:
        raise SandboxError(str(error)) from error
    if remove and Path(state, _SPEC).is_file():
        shutil.rmtree(state, ignore_errors=True)
    return ended


def status(state: str) -> ClusterStatus:
    """What lives of the sandbox in `state`; never raises for one that is broken or not there."""
    try:
        spec = msgspec.json.decode(Path(state, _SPEC).read_bytes(), type=ClusterSpec)
    except (OSError, msgspec.DecodeError, SandboxError):
        spec = None
    living = len(processes.find(state))
    nodes = _nodes(state) if living and spec is not None else ()
    return ClusterStatus(spec, living, nodes)


def client_environment(state: str) -> dict[str, str]:
    """The caller's environment, pointed at the sandbox: for sbatch, squeue and the like."""
    foreign = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = kept.get("PATH", "")
    return {
        **kept,
        "PATH": f"{path}:{_PATH}" if path else _PATH,
        "SLURM_CONF": f"{state}/etc/slurm.conf",
    }


def client(
    state: str, *argv: str, timeout_s: float = 15.0, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a Slurm command against the sandbox. Raises subprocess.TimeoutExpired."""
    return subprocess.run(  # noqa: S603 - a list, no shell
        argv,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=client_environment(state),
    )


def reconfigure(spec: ClusterSpec, timeout_s: float = 20.0) -> None:
    """Let every daemon read its configuration again, and wait until it has. Raises SandboxError.

    From 23.11 on they start themselves anew, after the command has returned: for a moment nobody
    answers, and for another one a node still works by the old lines.
    """
    until = time.monotonic() + timeout_s

    def wait(what: Callable[[], object], trouble: str) -> None:
        while not what():
            if time.monotonic() > until:
                raise SandboxError(f"{trouble} in {timeout_s:g} s\n{_logs(spec)}")
            time.sleep(0.05)

    logs = [f"{spec.state}/nodes/{name}/slurmd.log" for name in spec.names]
    before = {log: _starts(log) for log in (f"{spec.state}/slurmctld/log", *logs)}
    wait(
        lambda: client(spec.state, "scontrol", "reconfigure").returncode == 0,
        "scontrol reconfigure was not taken",
    )
    if slurm_release() >= (23, 11):
        wait(
            lambda: all(_starts(log) > count for log, count in before.items()),
            "not every daemon started anew",
        )
        wait(lambda: _nodes(spec.state), "slurmctld, started anew, does not answer")


def _starts(log: str) -> int:
    """How often this daemon began."""
    try:
        return len(_STARTED.findall(Path(log).read_text(errors="replace")))
    except OSError:
        return 0


class _DaemonEndedError(Exception):
    """A daemon ended while the cluster was starting."""


def _start(spec: ClusterSpec, until: float) -> ClusterStatus:
    state, munge = spec.state, f"{spec.state}/munge"
    Path(munge, "socket").unlink(missing_ok=True)
    daemons = {
        "munged": processes.start(
            [
                *("munged", "--foreground", "--force"),
                *(f"--key-file={munge}/key", f"--socket={munge}/socket"),
                *(f"--log-file={munge}/log", f"--pid-file={munge}/pid"),
                f"--seed-file={munge}/seed",
            ],
            state,
            f"{munge}/out",
        )
    }
    while not Path(munge, "socket").exists():
        _check(spec, daemons, until)
    daemons["slurmctld"] = processes.start(
        ["slurmctld", "-D", "-f", spec.conf], state, f"{state}/slurmctld/out"
    )
    for name in spec.names:
        daemons[f"slurmd {name}"] = processes.start(
            ["slurmd", "-D", "-N", name, "-f", spec.conf], state, f"{state}/nodes/{name}/out"
        )
    while not (now := ClusterStatus(spec, len(daemons), _nodes(state))).ready:
        _check(spec, daemons, until)
    return now


def _check(spec: ClusterSpec, daemons: "dict[str, subprocess.Popen[bytes]]", until: float) -> None:
    for name, daemon in daemons.items():
        if daemon.poll() is not None:
            raise _DaemonEndedError(f"{name} ended with {daemon.returncode} while starting")
    if time.monotonic() > until:
        raise SandboxError(f"the cluster did not become ready in time\n{_logs(spec)}")
    time.sleep(0.03)


def _nodes(state: str) -> tuple[NodeState, ...]:
    try:
        shown = client(state, "scontrol", "-a", "-o", "show", "node", timeout_s=5)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(parse_nodes(shown.stdout)) if shown.returncode == 0 else ()


def _free_ports(count: int) -> tuple[int, ...]:
    """`count` ports in a row that nothing listens on."""
    for _ in range(200):
        first = random.randrange(_FIRST_PORT, _LAST_PORT - count)  # noqa: S311 - not a secret
        ports = tuple(range(first, first + count))
        if all(_is_free(port) for port in ports):
            return ports
    raise SandboxError(f"no {count} free ports in a row from {_FIRST_PORT} to {_LAST_PORT}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - slurmd listens on all addresses too
        except OSError:
            return False
    return True


def _logs(spec: ClusterSpec) -> str:
    """The last lines of every daemon's output."""
    tails = []
    for name in ("munge/out", "slurmctld/out", *(f"nodes/{node}/out" for node in spec.names)):
        try:
            lines = Path(spec.state, name).read_text(errors="replace").splitlines()
        except OSError:
            continue
        tails += [f"{name}: {line}" for line in lines[-3:]]
    return "\n".join(tails)
