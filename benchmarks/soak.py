"""Ten thousand jobs on one node, and a day of health runs: does anything grow?

    python -m benchmarks.soak [--pairs 10000] [--hours 24] [--fail-every 15]

Each job is a prolog and an epilog in a process of its own, forked from one that has everything
imported (so that ten thousand fit into minutes); every fiftieth pair is the installed commands,
cold. One job in fifteen fails and leaves a log to be read (more than the reports that are kept),
GPUs fall ill and are mended, and the clock of the children moves on as it would have. Prints the
state folder's size, the largest process, file handles and processes left behind, at a tenth of the
way and at the end; exits 1 where one of them grew without bound.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import msgspec

from epilog.settings import EpilogSettings
from slurm_integration.sandbox.machine import live

BIN = Path(os.environ.get("FLIGHTCHECK_BIN") or Path(sys.executable).parent)
COLD_EVERY, FAIL_EVERY, SICK_EVERY = 50, 15, 400
FAULTS = ("ecc-uncorrected", "xid-79", "nvlink-down", "ib-flap")
JOB_S = 900.0
"""Simulated seconds from one prolog to the next."""
HEALTH_S = 300.0
GROWTH = 1.25
"""Of size and memory, from a tenth of the way to the end: what bounded state may still fill up."""
LOG = """\
step 4711 loss 1.23
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 12, in <module>
[rank0]: ValueError: expected 4 heads, found 5
"""


class Size(msgspec.Struct, frozen=True):
    """What there was at one moment. `peak_mib`: the largest process of the last stretch."""

    done: int
    state_bytes: int
    files: int
    peak_mib: float
    handles: int
    processes: int
    median_ms: float


class Soak:
    """One node, its jobs one after the other."""

    def __init__(self, folder: Path, fail_every: int = FAIL_EVERY) -> None:
        self.fail_every = fail_every
        self.root = folder / "node01"
        self.work = folder / "work"
        self.work.mkdir()
        os.chmod(folder, 0o755)
        live.build_machine(str(self.root), "h100-sxm", "node01")
        self.log = self.work / "slurm.out"
        self.log.write_text(LOG)
        self.peak_kib = 0
        self.times: list[float] = []
        self.codes: dict[int, int] = {}
        self.clock_s = 0.0

    def environment(self, job: int, stage: str) -> dict[str, str]:
        """What slurmd gives a hook of this job; one in `fail_every` failed."""
        failed = stage == "epilog" and job % self.fail_every == 0
        return {
            **live.environment(str(self.root)),
            "PATH": "/usr/bin:/bin", "HOME": "/root",
            "SLURM_JOB_ID": str(job), "SLURM_JOB_UID": "65534", "SLURM_JOB_GID": "65534",
            "SLURM_JOB_USER": "nobody", "SLURM_JOB_GPUS": "0-7", "SLURM_NODELIST": "node01",
            "SLURMD_NODENAME": "node01", "SLURM_SCRIPT_CONTEXT": f"{stage}_slurmd",
            "SLURM_JOB_WORK_DIR": str(self.work), "SLURM_JOB_STDOUT": str(self.log),
            "SLURM_JOB_EXIT_CODE2": "1:0" if failed else "0:0",
        }  # fmt: skip

    def pair(self, job: int) -> None:
        """A prolog and an epilog, and now and then a fault or its mending in between."""
        if job % SICK_EVERY == SICK_EVERY // 2:
            live.break_machine(str(self.root), FAULTS[job // SICK_EVERY % len(FAULTS)])
        if job % SICK_EVERY == SICK_EVERY // 2 + 5:
            live.heal_machine(str(self.root))
        for stage in ("prolog", "epilog"):
            environment = self.environment(job, stage)
            if job % COLD_EVERY == 0:
                self.count(_spawned(BIN / f"flightcheck-{stage}", environment))
            else:
                self.count(_forked(_hook(stage), environment, self.clock_s))
        self.clock_s += JOB_S

    def health(self) -> None:
        """One run of the health program; its environment names the node alone."""
        environment = {**live.environment(str(self.root)), "SLURMD_NODENAME": "node01"}
        self.count(_forked(_hook("health"), environment, self.clock_s))
        self.clock_s += HEALTH_S

    def count(self, ended: tuple[int, int, float]) -> None:
        """Keep what one process came to."""
        code, peak_kib, seconds = ended
        self.codes[code] = self.codes.get(code, 0) + 1
        self.peak_kib = max(self.peak_kib, peak_kib)
        self.times.append(seconds)

    def size(self, done: int) -> Size:
        """What there is now; the next stretch begins."""
        state = self.root / live.STATE
        files = [path for path in state.rglob("*") if path.is_file()]
        size = Size(
            done,
            sum(path.stat().st_size for path in files),
            len(files),
            self.peak_kib / 1024,
            len(os.listdir("/proc/self/fd")),
            _children(),
            median(self.times) * 1000 if self.times else 0.0,
        )
        self.peak_kib, self.times = 0, []
        return size


def _import_all() -> None:
    """What each child would import again; the cold runs among them pay for it themselves."""
    import slurm_integration.health.stage  # noqa: F401
    from healthcheck.registry import load_checks

    load_checks()


def _hook(stage: str) -> Callable[[Mapping[str, str]], int]:
    """The stage's own function, as its entry point calls it."""
    from healthcheck.host import host_at
    from healthcheck.reading import Plan, launch

    def call(environment: Mapping[str, str]) -> int:
        host = host_at(environment["FLIGHTCHECK_ROOT"])
        started = time.monotonic()
        early = [launch("nvml", host, Plan(stage=stage))]
        if stage == "prolog":
            from prolog.stage import run_prolog as run
        elif stage == "epilog":
            from epilog.stage import run_epilog as run
        else:
            from slurm_integration.health.stage import run_health as run
        return run(host, environment, early, started)

    return call


def _forked(
    call: Callable[[Mapping[str, str]], int], environment: Mapping[str, str], later_s: float
) -> tuple[int, int, float]:
    """(exit code, peak KiB, seconds) of one hook in a forked child whose clock is ahead."""
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.environ.clear()
            os.environ.update(environment)
            real = time.time
            time.time = lambda: real() + later_s
            code = call(environment)
        except BaseException:  # noqa: BLE001 - told by the exit code
            import traceback

            traceback.print_exc()
            code = 99
        os._exit(code)
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss, time.monotonic() - started


def _spawned(program: Path, environment: Mapping[str, str]) -> tuple[int, int, float]:
    started = time.monotonic()
    child = subprocess.Popen([program], env=dict(environment), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss, time.monotonic() - started


def _children() -> int:
    """Processes that are left of those we started."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return len(file.read().split())


def soak(
    folder: Path, pairs: int, hours: float, fail_every: int = FAIL_EVERY
) -> tuple[dict[str, list[Size]], dict[int, int]]:
    """Sizes of both parts at a tenth of the way and at the end, and all exit codes."""
    _import_all()
    one = Soak(folder, fail_every)
    sizes: dict[str, list[Size]] = {"jobs": [], "health": []}
    for job in range(1, pairs + 1):
        one.pair(job)
        if job in (max(pairs // 10, 1), pairs):
            sizes["jobs"].append(one.size(job))
    runs = int(hours * 3600 / HEALTH_S)
    for run in range(1, runs + 1):
        one.health()
        if run in (max(runs // 10, 1), runs):
            sizes["health"].append(one.size(run))
    return sizes, one.codes


def faults(sizes: Mapping[str, list[Size]], codes: Mapping[int, int]) -> list[str]:
    """What grew without bound, or ended as no hook should. Pure."""
    told = [f"{count} runs ended with {code}" for code, count in codes.items() if code]
    for part, (early, late) in ((part, pair) for part, pair in sizes.items() if len(pair) == 2):
        for name in ("handles", "processes"):
            before, after = getattr(early, name), getattr(late, name)
            if after > before:
                told.append(f"{part}: {name} grew from {before} to {after}")
        if late.peak_mib > early.peak_mib * GROWTH + 4:
            told.append(f"{part}: memory grew from {early.peak_mib:.0f} to {late.peak_mib:.0f} MiB")
        if late.state_bytes > LIMIT_BYTES:
            told.append(f"{part}: the state folder holds {late.state_bytes} bytes")
        if late.files > LIMIT_FILES:
            told.append(f"{part}: the state folder holds {late.files} files")
    return told


LIMIT_BYTES, LIMIT_FILES = 48 << 20, 2 * EpilogSettings().keep_reports + 20
"""Two event logs of 4 MiB, the reports that are kept (two files each), baseline and looks."""


def main() -> int:
    """Run it, print the table; 1 where something grew."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--pairs", type=int, default=10_000)
    asked.add_argument("--hours", type=float, default=24.0)
    asked.add_argument("--fail-every", type=int, default=FAIL_EVERY)
    args = asked.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fc-soak-", dir="/tmp") as folder:
        sizes, codes = soak(Path(folder), args.pairs, args.hours, args.fail_every)
    print("|  | done | state folder | files | largest process | handles | children | median |")
    print("|---|---|---|---|---|---|---|---|")
    for part, rows in sizes.items():
        for row in rows:
            print(
                f"| {part} | {row.done} | {row.state_bytes / 1024:.0f} KiB | {row.files} "
                f"| {row.peak_mib:.0f} MiB | {row.handles} | {row.processes} "
                f"| {row.median_ms:.0f} ms |"
            )
    print(f"\nexit codes {codes}; {time.monotonic() - started:.0f} s")
    told = faults(sizes, codes)
    for line in told:
        print(f"GREW: {line}", file=sys.stderr)
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
