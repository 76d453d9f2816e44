"""Did Slurm itself end a job whose exit code is 0? Its last words stand in the job's own log.

A time limit, scancel and a failed node leave the exit code 0, as of a job that ended well, and
`scontrol` is not asked after each of those. A child with the user's rights looks at the last bytes
of the job's output while the probes read; whatever it says is only a reason to ask Slurm, since
users write logs. Imported after every job that ended well, so nothing is imported here that is not
there already.
"""

import os
import signal
import time
from collections.abc import Mapping

from healthcheck.model import Job

TAIL_BYTES = 4096
WAIT_S = 3.0
"""Beyond the look itself, on a busy node or a slow home directory; a dead one holds no longer."""
SIGNS = (b"slurmstepd", b": error: *** ", b" CANCELLED AT ")
"""`slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT … DUE TO TIME LIMIT ***`, 22.05 to 25.11; after
`slurmstepd` the node where several run on one machine, before it the task with `srun -l`."""


class LastWords:
    """The child at work."""

    def __init__(self, uid: int, gid: int, user: str | None, paths: tuple[str, ...]) -> None:
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                code = 0 if _told(uid, gid, user, paths) else 2
            finally:
                os._exit(code)

    def heard(self) -> bool | None:
        """Whether Slurm says there that it ended the job. None: no answer within WAIT_S."""
        until = time.monotonic() + WAIT_S
        self._hurry()
        while True:
            done, status = os.waitpid(self._pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) == 0
            if time.monotonic() >= until:
                break
            time.sleep(0.002)
        os.kill(self._pid, signal.SIGKILL)
        return None

    def _hurry(self) -> None:
        """Now it is what the epilog waits for."""
        try:
            os.setpriority(os.PRIO_PROCESS, self._pid, 0)
        except OSError:
            pass


def listen(job: Job) -> LastWords | None:
    """Look at the output of a job that ended well by its exit code, on its first node."""
    if job.uid is None or job.gid is None or not _is_first(job):
        return None
    paths = output_files(job)
    return LastWords(job.uid, job.gid, job.user, paths) if paths else None


def output_files(job: Job) -> tuple[str, ...]:
    """Standard output and error, where their names are known without asking Slurm."""
    known = {"j": str(job.job_id), "J": str(job.job_id), "A": str(job.job_id), "u": job.user}
    default = f"{job.work_dir}/slurm-{job.job_id}.out" if job.work_dir else None
    names = (_expanded(name, known, job.work_dir) for name in (job.stdout, job.stderr))
    found = tuple(dict.fromkeys(name for name in names if name))
    return found or ((default,) if default and not job.stdout else ())


def _expanded(pattern: str | None, known: Mapping[str, str | None], folder: str | None) -> str:
    """The path of a pattern whose codes are all known; "" of any other."""
    parts = (pattern or "").split("%")
    path = parts[0]
    for part in parts[1:]:
        text = known.get(part[:1])
        if text is None:
            return ""
        path += text + part[1:]
    if not path or "\\" in path:
        return ""
    if path.startswith("/"):
        return path
    return f"{folder}/{path}" if folder else ""


def _is_first(job: Job) -> bool:
    """Whether this is the first node of `gpu[01-04,09],login1`: gpu01."""
    if not job.nodelist or not job.node_name:
        return True
    head, bracket, rest = job.nodelist.partition("[")
    if "," in head or not bracket:
        return head.partition(",")[0] == job.node_name
    low = rest.partition("]")[0].partition(",")[0].partition("-")[0]
    return job.node_name.partition(".")[0].startswith(head + low)


def _told(uid: int, gid: int, user: str | None, paths: tuple[str, ...]) -> bool:
    """In the child: become the user, read the ends, look for Slurm's words."""
    os.nice(19)  # the probes are what the epilog waits for

    from epilog.reader import drop
    from epilog.reader.open_file import Unfit, open_users

    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.alarm(10)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    drop.close_others(2)
    drop.become(uid, gid, user)
    drop.bound(5.0)
    for path in paths:
        try:
            opened = open_users(path, uid)
        except Unfit:
            continue
        with opened.file as file:
            file.seek(max(0, opened.size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
        if any(all(sign in line for sign in SIGNS) for line in tail.splitlines()):
            return True
    return False
