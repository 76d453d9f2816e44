"""Time and memory of a whole prolog on a simulated H100 node, cold process, median of ten.

`NHC=path` (LBNL Node Health Check's `nhc` script) adds its time for fifteen cheap checks on the
same machine in the same run.
"""

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Figures, measure
from healthcheck.host import host_at
from healthcheck.runner import Request, run
from slurm_integration.sandbox.machine.live import build_machine

TARGET_S = 0.10
TARGET_MIB = 32
BIN = Path(os.environ.get("FLIGHTCHECK_BIN") or Path(sys.executable).parent)
"""Where the measured commands are: `make bench` installs the wheel into a venv of its own."""
JOB = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_USER": "student",
    "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7",
    "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
    "SLURMD_NODENAME": "node01",
}


def main() -> None:
    """Build the node, measure, print the table."""
    with tempfile.TemporaryDirectory() as folder:
        root = f"{folder}/node01"
        build_machine(root, "h100-sxm", "node01")
        verdict = run(Request(host_at(root), stage="prolog")).report.verdict
        env = {"FLIGHTCHECK_ROOT": root, "PATH": "/usr/bin:/bin", "HOME": "/root", **JOB}
        rows = measure(commands(folder), env)
    failed = [row.label for row in rows if row.code]
    if failed:
        sys.exit(f"these did not end with 0, so their figures mean nothing: {', '.join(failed)}")
    print(f"simulated H100 node, verdict {verdict.value}; {os.cpu_count()} cores, median of 10\n")
    print(table(rows))


def commands(folder: str) -> dict[str, list[str]]:
    """What is measured, by label."""
    python = str(BIN / "python")
    found = {
        "bare interpreter": [python, "-c", "pass"],
        "import click": [python, "-c", "import click"],
        "import pynvml": [python, "-c", "import pynvml"],
        "flightcheck-prolog": [str(BIN / "flightcheck-prolog")],
        "flightcheck check --stage prolog --json": [
            str(BIN / "flightcheck"), "check", "--stage", "prolog", "--json"],
    }  # fmt: skip
    nhc = os.environ.get("NHC")
    if nhc:
        conf = Path(folder) / "nhc.conf"
        conf.write_text("".join(f"* || {check}\n" for check in NHC_CHECKS))
        found["LBNL NHC, 15 cheap checks"] = [nhc, "-c", str(conf), "DETACHED_MODE=0", "-a"]
    return found


NHC_CHECKS = (
    "check_fs_mount_rw -f /",
    "check_fs_free / 1%",
    "check_fs_ifree / 1%",
    "check_fs_used / 99%",
    "check_hw_cpuinfo",
    "check_hw_physmem_free 1MB",
    "check_hw_mem_free 1MB",
    "check_hw_swap_free 0MB",
    "check_hw_eth lo",
    "check_file_test -r -w /dev/null",
    "check_file_test -d /tmp",
    "check_file_test -f -r -s /etc/passwd",
    "check_file_test -r -w -x -k /tmp",
    "check_ps_loadavg 1000 1000",
    "check_ps_kswapd 100% log",
)


def table(rows: list[Figures]) -> str:
    """The figures beside what is to be reached."""
    lines = [
        f"{'':42} {'median':>8} {'fastest':>8} {'slowest':>8} {'largest':>9} {'all':>9}",
        f"{'':42} {'s':>8} {'s':>8} {'s':>8} {'MiB':>9} {'MiB':>9}",
    ]
    lines += [
        f"{row.label:42} {row.seconds:8.3f} {row.fastest:8.3f} {row.slowest:8.3f} "
        f"{row.largest_mib:9.1f} {row.sum_mib:9.1f}"
        for row in rows
    ]
    lines.append(
        f"{'to reach':42} {TARGET_S:8.3f} {'':8} {'':8} {TARGET_MIB:9.1f}\n\n"
        "largest: the largest resident size of any one process; all: the sum over the command "
        "and its\nchildren, shared pages counted in each."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
