"""One epilog: look at this node, and on the first node of a failed job say why it failed.

A job that ended well pays for the look alone: the rest is imported only for a failed one.
"""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from epilog.places import TASK_RECORD
from healthcheck import guard
from healthcheck.config import CONFIG_PATH, Config, load_config
from healthcheck.events import Deed
from healthcheck.host import Host, recorded, root_of
from healthcheck.model import Job
from healthcheck.reading import Reading
from healthcheck.runner import Request, Result, keep_baseline, run, state_folder
from slurm_integration.hook import FAIL_JOB, leave_file, remember, say, tell
from slurm_integration.job_env import read_job
from slurm_integration.policy import Decision, Do, decide
from slurm_integration.verdict_file import remove_verdict

if TYPE_CHECKING:
    from epilog.investigation import Investigation
    from epilog.last_words import LastWords

LAST_REPORT = "epilog.json"
"""In the state folder: the report of the last epilog."""
MARGIN_S = 0.2


def run_epilog(
    host: Host, environment: Mapping[str, str], early: Iterable[Reading], started: float
) -> int:
    """Look at the node after the job in `environment`; returns the exit code for slurmd."""
    config, notes, refused = load_config(environment.get("FLIGHTCHECK_CONFIG", CONFIG_PATH))
    guard.promise(started + config.deadline_s)
    job = read_job(environment)
    folder = state_folder(host, config)
    ended_well = job is not None and not (job.exit_code or job.exit_signal or job.derived_exit_code)
    words = _listen(config, job) if ended_well else None
    investigation = None if ended_well else _begin(config, job, folder, started)
    request = Request(
        host=host,
        stage="epilog",
        config=config,
        notes=(*notes, *(job.odd if job else ())),
        job=job,
        refused=refused,
        remember=False,  # only after it has acted
    )
    result = run(request, early, started)
    # A job that has ended cannot be sent elsewhere: where nothing could be judged, nothing is done.
    decision = decide(result.report, msgspec.structs.replace(config, on_unknown="run"))
    tell(result.report, decision, job)
    until = started + config.deadline_s - MARGIN_S
    code, drained, deed = _act(result, decision, config, job, until)
    if drained and job is not None and not ended_well:
        code = max(code, _expedite(config))
    guard.decided(code)
    note = keep_baseline(request, result)
    if note:
        say(f"note: {note}")
    if job is not None and config.epilog.get("kill_leftovers") is True:
        _end_leftovers(result, job, config, local=not recorded(host))
    _keep(folder, result)
    if job is not None:
        remove_verdict(job.job_id, root_of(host))
    remember(folder, result, decision, deed, config)
    if words is not None and _ended_by_slurm(words):
        investigation = _begin(config, job, folder, started, only_slurms=True)
    _finish(investigation, result)
    _forget_tasks(config, job)
    return code


def _listen(config: Config, job: Job | None) -> "LastWords | None":
    """Look whether Slurm itself ended a job whose exit code is 0, while the probes read."""
    if job is None or config.epilog.get("read_logs") is False:
        return None
    try:
        from epilog.last_words import listen

        return listen(job)
    except Exception as error:  # noqa: BLE001 - the node must be looked at all the same
        _tell_bug(error)
        return None


def _ended_by_slurm(words: "LastWords") -> bool:
    """Whether there is a reason to ask Slurm."""
    heard = words.heard()
    if heard is None:
        say(
            "note: the job's output file gave no answer in time; whether Slurm ended the job "
            "(time limit, scancel) was not looked at"
        )
    return bool(heard)


def _begin(
    config: Config, job: Job | None, folder: str, started: float, *, only_slurms: bool = False
) -> "Investigation | None":
    """Start reading a failed job's files, while the probes look at the node."""
    if job is None:
        return None
    try:
        from epilog.investigation import begin

        return begin(config, config.epilog, job, folder, started, only_slurms=only_slurms)
    except Exception as error:  # noqa: BLE001 - the node must be looked at all the same
        _tell_bug(error)
        return None


def _finish(investigation: "Investigation | None", result: Result) -> None:
    """Say why the job failed. What breaks in there takes nothing back of what was done."""
    if investigation is None:
        return
    try:
        investigation.finish(result)
    except Exception as error:  # noqa: BLE001 - a bug of ours must not drain the node
        _tell_bug(error)


def _expedite(config: Config) -> int:
    """The exit code on a node that was drained under a failed job.

    Slurm 25.11 restarts a `--requeue=expedite` job at once if its batch script and an epilog
    failed, and holds it otherwise. Each broken node says so itself: the job's first node may be
    another one, and a non-zero exit there would drain that.
    """
    from epilog.settings import settings_of

    settings, _ = settings_of(config.epilog)
    return FAIL_JOB if settings.requeue.mode == "expedite" else 0


def _forget_tasks(config: Config, job: Job | None) -> None:
    """The job has ended here: the record of how its tasks ended goes."""
    folder = config.epilog.get("task_record", TASK_RECORD)
    if job is None or not job.node_name or not isinstance(folder, str):
        return
    try:
        os.unlink(f"{folder}/{job.job_id}.{job.node_name}")
    except OSError:
        pass


def _tell_bug(error: Exception) -> None:
    import traceback

    traceback.print_exception(error)
    say(f"the job's failure is not explained: {type(error).__name__}: {error}; this is a bug")


def _act(
    result: Result, decision: Decision, config: Config, job: Job | None, deadline: float
) -> tuple[int, bool, Deed | None]:
    """Drain on local evidence. The exit code, whether the node is out of service by us, and what
    was done.
    """
    if decision.do is not Do.DRAIN:
        told = decision.do is not Do.PASS
        return 0, False, Deed("alert", reason=decision.why) if told else None
    from slurm_integration.act import drain
    from slurm_integration.drain import Drained

    done = drain(result.report, decision, config, job, deadline)
    ours = (Drained.DRAINED, Drained.ALREADY_OURS, Drained.LEFT_TO_SLURM)
    # Only where our own update failed does Slurm have to drain for a non-zero exit.
    left_to_slurm = done.outcome in (Drained.LEFT_TO_SLURM, Drained.FAILED_CLOSED)
    deed = Deed("drain", done.outcome.value, done.reason)
    return FAIL_JOB if left_to_slurm else 0, done.outcome in ours, deed


def _end_leftovers(result: Result, job: Job, config: Config, *, local: bool) -> None:
    """End what the job left behind; a simulated node's processes are this machine's own."""
    from epilog.leftovers import end, in_cgroup, on_gpus

    if job.uid is None or not local:
        return
    pids = sorted({*on_gpus(result.snapshot, job.uid), *in_cgroup(job.job_id)})
    if config.dry_run:
        if pids:
            say(f"dry run, nothing was ended: job {job.job_id} left processes {pids[:16]}")
        return
    ended, notes = end(pids, job.uid)
    if ended:
        say(f"ended {len(ended)} processes that job {job.job_id} left behind: {ended[:16]}")
    for note in notes[:16]:
        say(f"note: {note}")


def _keep(folder: str, result: Result) -> None:
    """Leave the report where people find it."""
    from healthcheck.report.json import to_json

    leave_file(f"{folder}/{LAST_REPORT}", to_json(result.report).encode() + b"\n")
