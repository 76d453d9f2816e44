"""The job that a stage runs for."""

import msgspec


class Job(msgspec.Struct, frozen=True):
    """A job as the workload manager describes it to its hooks; no job means an idle sweep.

    `gpu_minors`: the N of /dev/nvidiaN the job was given; None where the manager named none.
    `gpu_uuids`: GPU or MIG UUIDs where it names those instead. `odd` lists what could not be
    understood; nothing of it is ever trusted.
    """

    job_id: int
    uid: int | None = None
    gid: int | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    comment: str | None = None
    work_dir: str | None = None
    nodelist: str | None = None
    num_nodes: int | None = None
    node_name: str | None = None
    restart_count: int = 0
    gpu_minors: tuple[int, ...] | None = None
    gpu_uuids: tuple[str, ...] | None = None
    script_context: str | None = None
    spank: dict[str, str] = {}
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    derived_exit_code: int | None = None
    odd: tuple[str, ...] = ()
