"""The only place that runs scontrol.

Its output comes through pipes, not files: a node that fails for a full disk must still be able
to drain itself. Nothing here waits for scontrol: at the time-out its process group is killed and,
should even that not help (a hung NFS install), left behind.
"""

import os
import select
import signal
import subprocess  # noqa: TID251 - this is the door
import time
from enum import StrEnum

import msgspec

FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/slurm/bin",
    "/usr/local/slurm/bin",
    "/opt/slurm/current/bin",
    "/usr/local/slurm/current/bin",
    "/cm/shared/apps/slurm/current/bin",
)
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
MAX_OUTPUT = 256 << 20
"""Bytes; 10,000 nodes are 9 MB. More is refused: half a list of nodes would be a wrong list."""
_GRACE_S = 0.2


class Status(StrEnum):
    """How a call ended."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    MISSING = "missing"


class Answer(msgspec.Struct, frozen=True):
    """What scontrol said. `code` is None unless it ran to its end."""

    status: Status
    stdout: str = ""
    stderr: str = ""
    code: int | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether scontrol did what it was asked."""
        return self.status is Status.OK

    def trouble(self) -> str:
        """The failure in words: `scontrol timed out after 2.0 s`."""
        if self.status is Status.TIMED_OUT:
            return f"scontrol timed out after {self.seconds:.1f} s"
        if self.status is Status.MISSING:
            return f"scontrol could not be started ({self.stderr})"
        text = "".join(c if c.isprintable() else " " for c in self.stderr or self.stdout).strip()
        return f"scontrol failed (exit code {self.code}): {text[:200] or 'no message'}"


class Scontrol:
    """Calls of scontrol with one time-out; counts them as `reads` and `updates`.

    `path` is an absolute file name, or "" to search FOLDERS. `timeout_s` bounds each call; a
    call's own deadline (monotonic seconds) may make it shorter.
    """

    def __init__(self, path: str = "", timeout_s: float = 5.0) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self.reads = 0
        self.updates = 0

    def show_nodes(self, nodes: str = "", *, deadline: float | None = None) -> Answer:
        """One line a node, hidden partitions included; all nodes, or the folded list `nodes`."""
        self.reads += 1
        return self._call(["-a", "-o", "show", "node", *([nodes] if nodes else [])], deadline)

    def update_nodes(
        self, nodes: str, fields: dict[str, str], *, deadline: float | None = None
    ) -> Answer:
        """Set `fields` (State, Reason, Comment) on the folded list `nodes`, in one request."""
        self.updates += 1
        assignments = [f"{name}={value}" for name, value in fields.items()]
        return self._call(["update", f"NodeName={nodes}", *assignments], deadline)

    def show_config(self, *, deadline: float | None = None) -> Answer:
        """slurmctld's configuration as it is in force, times in UTC."""
        self.reads += 1
        return self._call(["show", "config"], deadline)

    def show_job(self, job_id: int, *, deadline: float | None = None) -> Answer:
        """One line a component of the job, times in UTC."""
        self.reads += 1
        return self._call(["-o", "show", "job", str(job_id)], deadline)

    def update_job(
        self, job_id: int, fields: dict[str, str], *, deadline: float | None = None
    ) -> Answer:
        """Set `fields` (AdminComment, Comment) of a job, in one request."""
        self.updates += 1
        assignments = [f"{name}={value}" for name, value in fields.items()]
        return self._call(["update", f"JobId={job_id}", *assignments], deadline)

    def requeue(self, job_id: int, *, deadline: float | None = None) -> Answer:
        """Send a job back to the queue, also one that is completing."""
        self.updates += 1
        return self._call(["requeue", str(job_id)], deadline)

    def _call(self, arguments: list[str], deadline: float | None) -> Answer:
        program = self._path or _find()
        if not program.startswith("/"):
            expected = "an absolute path" if self._path else f"it in {', '.join(FOLDERS)}"
            return Answer(Status.MISSING, stderr=f"expected {expected}; set scontrol in [drain]")
        started = time.monotonic()
        until = started + self._timeout_s
        if deadline is not None:
            until = min(until, deadline)
        if until <= started:
            return Answer(Status.TIMED_OUT)
        return _run([program, *arguments], started, until)


def _find() -> str:
    for folder in FOLDERS:
        if os.access(f"{folder}/scontrol", os.X_OK):
            return f"{folder}/scontrol"
    return ""


def environment() -> dict[str, str]:
    """A clean environment: UTC times, no colours, no SLURM_CLUSTERS; SLURM_CONF is kept."""
    kept = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    return {"PATH": PATH, "LC_ALL": "C", "TZ": "UTC", **kept}


def _run(argv: list[str], started: float, until: float) -> Answer:
    try:
        process = subprocess.Popen(  # noqa: S603 - a list, no shell, fixed environment
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )
    except (OSError, ValueError) as error:
        return Answer(Status.MISSING, stderr=f"{argv[0]}: {error}"[:300])
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.fileno(), process.stderr.fileno()
    collected: dict[int, list[bytes]] = {out: [], err: []}
    try:
        whole = _collect(process, collected, until)
        code = _wait(process, until) if whole else None
    finally:
        if process.returncode is None:
            _kill(process)
        process.stdout.close()
        process.stderr.close()
    seconds = time.monotonic() - started
    said, complained = (b"".join(collected[fd]).decode("utf-8", "replace") for fd in (out, err))
    if code is None and time.monotonic() < until:
        return Answer(Status.FAILED, stderr=f"more than {MAX_OUTPUT} bytes", seconds=seconds)
    if code is None:
        return Answer(Status.TIMED_OUT, said, complained, None, seconds)
    return Answer(Status.OK if code == 0 else Status.FAILED, said, complained, code, seconds)


def _collect(
    process: "subprocess.Popen[bytes]", collected: dict[int, list[bytes]], until: float
) -> bool:
    """Read both pipes to their end, or until scontrol has ended; False at time-out or too much."""
    poll = select.poll()
    for fd in collected:
        os.set_blocking(fd, False)
        poll.register(fd, select.POLLIN)
    open_fds, size = len(collected), 0
    while open_fds:
        left = until - time.monotonic()
        ready = poll.poll(max(0.0, min(left, 0.05)) * 1000)
        if left <= 0 and not ready:
            return False  # only now: an answer that is here counts, however late we come
        if not ready and process.poll() is not None:
            ready = poll.poll(0)  # what it wrote between the two looks
            if not ready:
                return True  # a grandchild holds the pipe; all that scontrol wrote has been read
        for fd, _ in ready:
            chunk = os.read(fd, 1 << 20)
            collected[fd].append(chunk)
            size += len(chunk)
            if not chunk:
                poll.unregister(fd)
                open_fds -= 1
        if size > MAX_OUTPUT:
            return False
    return True


def _wait(process: "subprocess.Popen[bytes]", until: float) -> int | None:
    pause = 0.0005
    while (code := process.poll()) is None and time.monotonic() < until:
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return code


def _kill(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if _wait(process, time.monotonic() + _GRACE_S) is None:
        # Unkillable: keep Popen's destructor from warning about it.
        process.returncode = -signal.SIGKILL
