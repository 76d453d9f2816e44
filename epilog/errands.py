"""Which files a failed job's story may be in. Pure: names in, globs out."""

from collections.abc import Mapping

from epilog.job_facts import Shown
from epilog.reader.errand import Errand
from epilog.reader.paths import DEFAULT_OUTPUT, escape, expand, expand_site
from epilog.settings import EpilogSettings
from healthcheck.model import Job

MIB = 1 << 20
ARRAY_OUTPUT = "slurm-%A_%a.out"


def build_errand(
    job: Job, shown: Shown, nodes: tuple[str, ...], settings: EpilogSettings, seconds: float
) -> Errand | None:
    """The errand, or None where it is not known whose files they are."""
    if job.uid is None or job.gid is None:
        return None
    known = known_codes(job, shown)
    work_dir = job.work_dir or shown.work_dir
    patterns = _outputs(job, shown)
    logs: dict[str, str] = {}
    for pattern in patterns:
        path = expand(pattern, known, work_dir)
        if path is not None:
            logs.setdefault(path, pattern)
    for pattern in settings.log_files:
        path = expand_site(pattern, known, work_dir)
        if path is not None:
            logs.setdefault(path, pattern)
    # Slurm's own expansion, where ours could not do it.
    for told in (shown.stdout, shown.stderr) if not logs else ():
        if told and told.startswith("/"):
            logs.setdefault(escape(told), "")
    return Errand(
        uid=job.uid,
        gid=job.gid,
        user=job.user,
        logs=tuple(logs),
        patterns=tuple(logs.values()),
        known=dict(known),
        recorder=_site(settings.flight_recorder, known, work_dir),
        rank_maps=_site(settings.rank_maps, known, work_dir),
        error_files=_site(settings.error_files, known, work_dir),
        since=shown.started_at,
        nodes=nodes,
        node=job.node_name or "",
        max_log=settings.max_log_mib * MIB,
        seconds=seconds,
    )


def known_codes(job: Job, shown: Shown) -> dict[str, str]:
    """Slurm's filename codes as far as they are known."""
    number = str(job.job_id)
    codes = {
        "j": number,
        "J": number,
        "A": shown.array_job or number,
        "a": shown.array_task,
        "x": shown.name,
        "u": job.user,
    }
    return {code: text for code, text in codes.items() if text}


def output_folder(errand: Errand, job: Job, shown: Shown) -> str | None:
    """The folder of the job's output, where it has a single one."""
    for log in errand.logs[:1]:
        folder = log.rpartition("/")[0]
        if folder and not any(sign in folder for sign in "*?["):
            return folder
    return job.work_dir or shown.work_dir


def _outputs(job: Job, shown: Shown) -> list[str]:
    """The patterns of standard output and error; Slurm's default where the user gave none."""
    default = ARRAY_OUTPUT if shown.array_task else DEFAULT_OUTPUT
    return list(dict.fromkeys([job.stdout or default, job.stderr or job.stdout or default]))


def _site(
    patterns: tuple[str, ...], known: Mapping[str, str], work_dir: str | None
) -> tuple[str, ...]:
    paths = (expand_site(pattern, known, work_dir) for pattern in patterns)
    return tuple(path for path in paths if path is not None)
