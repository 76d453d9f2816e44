"""Time and memory of a whole epilog on a simulated H100 node, cold process, median of ten.

A job that ended well, and one that failed with a small log of a traceback; the prolog beside them,
because all three look at the same node. Slurm's answer comes from a script. Needs root, since the
log is read as its user.
"""

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Figures, measure
from slurm_integration.sandbox.machine.live import build_machine, take_baseline

TARGET_S = {"succeeded": 0.10, "failed": 0.25, "health": 0.15}
BIN = Path(os.environ.get("FLIGHTCHECK_BIN") or Path(sys.executable).parent)
"""Where the measured commands are: `make bench` installs the wheel into a venv of its own."""
UID = 23_456
LOG = "".join(
    f"[rank{rank}]: {line}\n"
    for rank in range(4)
    for line in (
        "Traceback (most recent call last):",
        '  File "/home/student/train.py", line 77, in <module>',
        "    main()",
        "ValueError: not enough values to unpack (expected 2, got 1)"
        if rank == 2
        else "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed "
        "by peer [10.0.0.3]:51234",
    )
)
SCONTROL = """#!/bin/sh
echo "JobId=4711 JobName=train UserId=student(23456) JobState=COMPLETING \
StartTime=2026-01-01T00:00:00 TimeLimit=1-00:00:00 NumTasks=4 NtasksPerN:B:S:C=4:0:*:* "
"""


def main() -> None:
    """Build the node and its job, measure, print the table."""
    if os.geteuid() != 0:
        sys.exit("benchmarks: run as root: the job's log is read as its user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        env = prepare(Path(folder))
        rows = measure(commands(), env)
    failed = [row.label for row in rows if row.code]
    if failed:
        sys.exit(f"these did not end with 0, so their figures mean nothing: {', '.join(failed)}")
    print(f"simulated H100 node, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(table(rows))


def prepare(folder: Path) -> dict[str, str]:
    """A node, a job's folder with its log, a scontrol; the environment slurmd would give."""
    root = str(folder / "node01")
    build_machine(root, "h100-sxm", "node01")
    take_baseline(root)
    home = folder / "home"
    home.mkdir()
    (home / "slurm-4711.out").write_text(LOG + "epoch 1 step 10 loss 2.31\n" * 2000)
    for path in (home, home / "slurm-4711.out"):
        os.chown(path, UID, UID)
    scontrol = folder / "scontrol"
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o755)
    config = folder / "flightcheck.toml"
    config.write_text(f'[drain]\nscontrol = "{scontrol}"\n')
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/root",
        "FLIGHTCHECK_ROOT": root,
        "FLIGHTCHECK_CONFIG": str(config),
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_UID": str(UID),
        "SLURM_JOB_GID": str(UID),
        "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7",
        "SLURM_JOB_NODELIST": "node01",
        "SLURM_JOB_WORK_DIR": str(home),
        "SLURM_JOB_EXIT_CODE2": "0:0",
        "SLURMD_NODENAME": "node01",
    }


def commands() -> dict[str, list[str]]:
    """What is measured, by label."""
    epilog = [str(BIN / "flightcheck-epilog")]
    return {
        "bare interpreter": [str(BIN / "python"), "-c", "pass"],
        "flightcheck-prolog": [str(BIN / "flightcheck-prolog")],
        "flightcheck-epilog, succeeded job": epilog,
        "flightcheck-epilog, small failed job": [
            "/usr/bin/env", "SLURM_JOB_EXIT_CODE2=1:0", *epilog],
        "flightcheck-health": [str(BIN / "flightcheck-health")],
    }  # fmt: skip


def table(rows: list[Figures]) -> str:
    """The figures beside what is to be reached."""
    head = ("median s", "fastest s", "slowest s", "largest MiB", "to reach s")
    lines = [f"{'':38}" + "".join(f"{word:>12}" for word in head)]
    for row in rows:
        target = next((f"{t:.2f}" for word, t in TARGET_S.items() if word in row.label), "")
        lines.append(
            f"{row.label:38}{row.seconds:12.3f}{row.fastest:12.3f}{row.slowest:12.3f}"
            f"{row.largest_mib:12.1f}{target:>12}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
