"""`[allreduce]` in the configuration: whether a prolog runs the test, and with which torch."""

from typing import Annotated, Literal

import msgspec

Mode = Literal["off", "quick", "full"]
Interpreter = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^/[^\x00-\x1f\x7f]*\Z",
        description="an absolute path such as /opt/torch/bin/python",
    ),
]
Variable = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Z][A-Z0-9_]*\Z", description="a variable such as NCCL_IB_HCA")
]


class AllreduceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[allreduce]`. Off on a first install.

    `mode` is for all partitions, `partitions` overrides it for some by name. A node that passed
    within `max_age_s` is not tested again. `interpreter` is a Python that has torch; without one
    it is ours. `timeout_s` bounds the whole test, also where the stage's own deadline is later.
    `env` is set for the test in place of what the environment of slurmd holds.
    """

    mode: Mode = "off"
    partitions: dict[str, Mode] = {}
    max_age_s: Annotated[float, msgspec.Meta(ge=0)] = 86_400.0
    interpreter: Interpreter | None = None
    timeout_s: Annotated[float, msgspec.Meta(ge=5, le=3600)] = 50.0
    collective_timeout_s: Annotated[float, msgspec.Meta(ge=1, le=600)] = 20.0
    env: dict[Variable, str] = {}

    def mode_for(self, partition: str | None) -> Mode:
        """The mode for a job of this partition."""
        return self.partitions.get(partition or "", self.mode)
