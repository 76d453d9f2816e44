"""The nouns of the epilog: what was seen of a job, and what is concluded from it.

Rooms: signatures/ (data) → scan/ (files → Evidence) ; recorder/ (flight-recorder dumps →
Evidence and CollectiveState) ; attribute/ (JobFacts + Evidence → Attribution, pure) ; decide/
(Attribution + local findings → Decision, pure) ; stage.py (the hook) ; report/ (what people get).
"""

from enum import StrEnum
from typing import Any

import msgspec


class Role(StrEnum):
    """What a line says about the failure's course."""

    ROOT = "root"
    SYMPTOM = "symptom"
    CONSEQUENCE = "consequence"


class Drain(StrEnum):
    """What a class says about the node: text alone never gives more than review (law 5)."""

    YES = "yes"
    NO = "no"
    REVIEW = "review"


class Evidence(msgspec.Struct, frozen=True):
    """One thing that was seen, and where.

    `klass` is `category/class` as in the table of classes. `signature` names the rule that saw
    it. `rank` is the global rank, `local_rank` the rank on its node, `label` the number of an
    `srun -l` prefix (a Slurm task, which is a rank only where one task is one rank). `host` as
    the line gives it. `at` is unix time in seconds where the line or the file tells one. `fields`
    are what the signature took out (SeqNum, OpType, peer, timeout_ms, pg, …). `fact`: read from
    the node itself (kernel log, counters, exit record), not from text a user could have written.
    """

    file: str
    line: int
    role: Role
    klass: str
    text: str
    signature: str = ""
    rank: int | None = None
    local_rank: int | None = None
    label: int | None = None
    host: str | None = None
    at: float | None = None
    fields: dict[str, str] = {}
    fact: bool = False


class TaskExit(msgspec.Struct, frozen=True):
    """How one task ended: from the task-exit record, torchrun's error files or srun's words.

    `label` is the Slurm task, as srun names it: a rank only where one task is one rank.
    """

    rank: int | None
    node: str | None
    exit_code: int | None = None
    signal: int | None = None
    at: float | None = None
    fact: bool = False
    label: int | None = None


class RankPlace(msgspec.Struct, frozen=True):
    """Where a rank ran (rank map written at task start).

    `launcher`: a task that may start ranks of its own, as torchrun does; `rank` is then the number
    of the Slurm task, which is a rank only where no launcher was at work.
    """

    rank: int
    host: str
    local_rank: int | None = None
    gpu_uuid: str | None = None
    pid: int | None = None
    launcher: bool = False


class Work(msgspec.Struct, frozen=True):
    """One rank's place in one process group: last enqueued and last completed sequence number.

    From watchdog and dump-signal lines or from flight-recorder dumps. `op`, `numel_in` and
    `shape` describe the operation that never completed, where known.
    """

    rank: int
    group: str
    enqueued: int | None
    completed: int | None
    op: str | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    shape: str | None = None
    dtype: str | None = None
    timeout_ms: int | None = None
    at: float | None = None
    stack: tuple[str, ...] = ()


class JobFacts(msgspec.Struct, frozen=True):
    """What is known of the job besides its logs. None means unknown.

    `nodes` in Slurm's order; `tasks_per_node` as counts in that order. Times are unix seconds.
    """

    job_id: int | None = None
    uid: int | None = None
    user: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    derived_exit_code: int | None = None
    nodes: tuple[str, ...] = ()
    tasks_per_node: tuple[int, ...] = ()
    world_size: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    time_limit_at: float | None = None
    restart_count: int = 0
    ranks: tuple[RankPlace, ...] = ()
    exits: tuple[TaskExit, ...] = ()


class Root(msgspec.Struct, frozen=True):
    """Who began it. GPUs as UUIDs or PCI addresses."""

    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()


class Attribution(msgspec.Struct, frozen=True):
    """Why the job failed and who began it.

    `confidence` 0 to 1; `unknown/…` classes are never above 0.5. `steps` are the algorithm's
    steps, each with what it concluded and why; `chain` is the story in order of time; `message`
    one or two sentences for the owner of the job. `drain` is what the class says of the root
    node; only a fact of that node turns `review` into `yes`.
    """

    klass: str
    confidence: float
    root: Root
    drain: Drain
    message: str
    evidence: tuple[Evidence, ...] = ()
    chain: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    @property
    def category(self) -> str:
        """hardware, network, infrastructure, scheduler, user or unknown."""
        return self.klass.partition("/")[0]


def to_data(attribution: Attribution) -> dict[str, Any]:
    """The documented JSON form of `flightcheck classify --json`."""
    return {
        "class": attribution.klass,
        "category": attribution.category,
        "confidence": round(attribution.confidence, 2),
        "root": msgspec.to_builtins(attribution.root),
        "drain": attribution.drain.value,
        "evidence": [
            {
                "file": e.file,
                "line": e.line,
                "role": e.role.value,
                "class": e.klass,
                "text": e.text,
            }
            for e in attribution.evidence
        ],
        "chain": list(attribution.chain),
        "steps": list(attribution.steps),
        "message": attribution.message,
    }
