"""`[epilog]` of the configuration: what is read and done after a job. Every default is safe."""

from typing import Annotated, Any, Literal

import msgspec

from epilog.places import TASK_RECORD
from healthcheck.config import AbsolutePath

Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Pattern = Annotated[
    str, msgspec.Meta(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*\Z")
]

RECORDER_FILES = (
    "flightcheck-%j/fr_*",
    "/tmp/nccl_trace_rank_*",  # noqa: S108 - where PyTorch itself writes, 2.3 to 2.8
    "/tmp/comm_lib_trace_rank_*",  # noqa: S108 - 2.9 and later
)
ERROR_FILES = ("/tmp/torchelastic_*/*/attempt_*/*/error.json",)  # noqa: S108 - torchrun's own place


class RequeueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[epilog.requeue]`: whether a job whose failure is proven hardware runs again by itself.

    `most`: restarts of one job. `mode` "expedite" leaves it to `sbatch --requeue=expedite` of
    Slurm 25.11: the epilog of the failing node then exits 1, and does nothing else about it.
    """

    enabled: bool = False
    most: Annotated[int, msgspec.Meta(ge=0, le=100)] = 2
    mode: Literal["normal", "expedite"] = "normal"


class EpilogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[epilog]`.

    `read_logs`: whether the files of a failed job are read at all. `log_files`: globs with Slurm's
    codes (`logs/%x-%j/*.log`) of further logs, from the job's folder on; `flight_recorder`,
    `rank_maps` (of the task prolog) and `error_files` likewise. `max_log_mib` of one log: of a
    larger one head and tail are read.
    `deadline_s` bounds the whole epilog of a failed job, Slurm's PrologEpilogTimeout must be
    longer. `peer_wait_s`: how long the first node waits for what the job's other nodes find out
    about themselves. `admin_comment`: write the cause into the job's AdminComment. `tell_user`:
    leave flightcheck-JOBID.txt beside the job's output. `kill_leftovers`: end processes of the
    job's user that are still in the job's cgroup or on its GPUs. `confirm_drains`: drain a node
    for diagnosis when two unrelated jobs of different users suspect it. `shared_dir`: a folder,
    root's own, that all nodes see; suspicions and reports are kept there, else on the node.
    `task_record`: where the SPANK plugin records how tasks ended, as plugstack.conf says.
    """

    read_logs: bool = True
    log_files: tuple[Pattern, ...] = ()
    flight_recorder: tuple[Pattern, ...] = RECORDER_FILES
    rank_maps: tuple[Pattern, ...] = ("flightcheck-%j/ranks-*.jsonl",)
    error_files: tuple[Pattern, ...] = ERROR_FILES
    max_log_mib: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 4096
    deadline_s: Annotated[float, msgspec.Meta(ge=1, le=600)] = 30.0
    peer_wait_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 5.0
    admin_comment: bool = False
    tell_user: bool = True
    kill_leftovers: bool = False
    confirm_drains: bool = True
    suspicion_window_s: Annotated[float, msgspec.Meta(ge=60, le=90 * 86_400)] = 7 * 86_400.0
    shared_dir: AbsolutePath | None = None
    task_record: AbsolutePath = TASK_RECORD
    keep_reports: Count = 500
    requeue: RequeueSettings = RequeueSettings()


def settings_of(raw: Any) -> tuple[EpilogSettings, list[str]]:
    """The settings in the `[epilog]` table, and notes where it is refused.

    A refused table means the defaults, which drain nothing, requeue nothing and kill nothing.
    """
    if isinstance(raw, EpilogSettings):
        return raw, []
    try:
        return msgspec.convert(raw or {}, EpilogSettings), []
    except msgspec.ValidationError as error:
        cautious = EpilogSettings(confirm_drains=False)
        return cautious, [f"[epilog] is refused: {error}; built-in defaults are in force"]
