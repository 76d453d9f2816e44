"""`[task_prolog]` of the configuration: what a job's tasks are given and told as they start."""

from typing import Annotated, Literal

import msgspec

When = Literal["gpu", "always", "off"]
"""For jobs that were given GPUs, for all, for none."""


class TaskPrologSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[task_prolog]`. Used by flightcheck-task-prolog alone, which Slurm's TaskProlog names.

    `flight_recorder`: switch PyTorch's flight recorder on, with room for `buffer` entries, dumping
    into `folder` below the job's working folder (`%j`: the job) where the epilog looks for it.
    `nan_check`: the rank whose data hold NaN fails before the collective (costs time).
    `desync_debug`: PyTorch tells who is behind (costs a little time). What a user has set is never
    touched. `rank_map`: write down where each rank runs, into the same folder. `tell`: the verdict
    goes to the user's output from every node, from the job's first and from each that is not go
    (`job`), or not at all.
    """

    flight_recorder: When = "gpu"
    rank_map: When = "gpu"
    buffer: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 2000
    folder: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^[A-Za-z0-9%._/-]{1,255}\Z",
            description="a folder of letters, digits and % . _ / - such as flightcheck-%j",
        ),
    ] = "flightcheck-%j"
    nan_check: bool = False
    desync_debug: bool = False
    tell: Literal["node", "job", "off"] = "job"
