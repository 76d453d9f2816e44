"""A sweep of 1,000 hosts through ssh, beside ClusterShell's clush with the same fan-out.

ssh_server.py answers on a thousand loopback addresses; each answer takes 200 ms and is the report
of a simulated H100 node. Clients and server share this machine's cores. CPU time and memory are
the client's own, from the kernel's accounting: for clush with the ssh processes it starts.

    python -m benchmarks.sweep [HOSTS [FANOUT]]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from healthcheck import __version__
from healthcheck.host import host_at
from healthcheck.report.facts import facts_of
from healthcheck.report.json import to_data
from healthcheck.runner import Request, run
from slurm_integration.sandbox import sshd
from slurm_integration.sandbox.machine.live import build_machine

DELAY_S = 0.2
TARGET_CPU_MS = 6.5
TARGET_WALL = 1.25
TARGET_MIB = 300
BIN = Path(os.environ.get("FLIGHTCHECK_BIN") or Path(sys.executable).parent)


class Cost(NamedTuple):
    """What one client took: wall and CPU seconds, the largest resident size of its process."""

    wall_s: float
    cpu_s: float
    mib: float
    output: str
    code: int


def main() -> None:
    """Start the server, run both clients, print the table."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    fanout = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    why = sshd.why_not()
    if why:
        sys.exit(f"no benchmark of sweeps here: {why}")
    with tempfile.TemporaryDirectory(prefix="fc-bench-", dir="/tmp") as folder:
        measured(Path(folder), hosts, fanout)


def measured(folder: Path, hosts: int, fanout: int) -> None:
    """Both clients in turn, against one server."""
    names = [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(hosts)]
    answer = an_answer(folder)
    key = sshd.client_key(folder)
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ssh_server", str(key), str(answer), str(DELAY_S), "2"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    config = client_files(folder, int(server.stdout.readline()), names)
    loaded = os.getloadavg()[0]
    try:
        ours = spent(
            [str(BIN / "flightcheck"), "sweep", "--via", "ssh", "-w", ",".join(names),
             "--fanout", str(fanout), "--ssh-config", str(config), "--timeout", "300"]
        )  # fmt: skip
        clush = shutil.which("clush")
        theirs = spent(
            [clush, "-S", "-L", "-q", "-f", str(fanout), "-w", ",".join(names),
             "-o", f"-F {config}", "flightcheck check --json"]
        ) if clush else None  # fmt: skip
    finally:
        server.terminate()
        server.wait()
    tell(ours, theirs, hosts, fanout, loaded)


def an_answer(folder: Path) -> Path:
    """What flightcheck says on a healthy H100 node."""
    build_machine(f"{folder}/node", "h100-sxm", "node01")
    result = run(Request(host_at(f"{folder}/node")))
    data = {**to_data(result.report), "version": __version__, "facts": facts_of(result.snapshot)}
    path = folder / "answer.json"
    path.write_bytes(msgspec.json.encode(data))
    return path


def client_files(folder: Path, port: int, names: list[str]) -> Path:
    """known_hosts with a line a host, and an ssh_config that both clients read."""
    kind, key = (folder / "id_ed25519.pub").read_text().split()[:2]
    known = "".join(f"[{name}]:{port} {kind} {key}\n" for name in names)
    (folder / "known_hosts").write_text(known)
    config = folder / "ssh_config"
    config.write_text(
        f"Host *\n  Port {port}\n  User root\n  IdentityFile {folder}/id_ed25519\n"
        f"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {folder}/known_hosts\n"
        "  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  ConnectTimeout 240\n"
    )
    return config


def spent(argv: list[str]) -> Cost:
    """Run it; what it took by itself and with its children."""
    with tempfile.TemporaryFile() as out:
        started = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - started
        out.seek(0)
        text = out.read().decode(errors="replace")
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(wall, cpu, usage.ru_maxrss / 1024, text, process.returncode)


def tell(ours: Cost, theirs: Cost | None, hosts: int, fanout: int, loaded: float) -> None:
    """The table, and whether the targets are met."""
    if f"{hosts} go of {hosts} nodes" not in ours.output:
        sys.exit(f"not every host answered, so the figures mean nothing:\n{ours.output[-2000:]}")
    print(f"{hosts} hosts, fan-out {fanout}, {DELAY_S:g} s each; {os.cpu_count()} cores, "
          f"load {loaded:.1f} before\n")  # fmt: skip
    print(f"{'':22}{'wall s':>9}{'CPU ms/host':>13}{'MiB':>8}")
    for label, cost in (("flightcheck sweep", ours), ("clush (with its ssh)", theirs)):
        if cost is not None:
            each = cost.cpu_s / hosts * 1000
            print(f"{label:22}{cost.wall_s:9.2f}{each:13.2f}{cost.mib:8.0f}")
    each = ours.cpu_s / hosts * 1000
    met = each <= TARGET_CPU_MS and ours.mib < TARGET_MIB
    print(f"\ntargets: CPU {TARGET_CPU_MS} ms a host, {TARGET_MIB} MiB", end="")
    if theirs is not None and theirs.code == 0:
        ratio = ours.wall_s / theirs.wall_s
        met = met and ratio <= TARGET_WALL
        print(f", wall {TARGET_WALL} × clush; here {ratio:.2f} ×", end="")
    print(f": {'met' if met else 'NOT met'}")


if __name__ == "__main__":
    main()
