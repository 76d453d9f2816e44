"""What a sandbox cluster is made of."""

import re
import sys

import msgspec

MAX_NODES = 64
_SAFE_PATH = re.compile(r"/[A-Za-z0-9._/+-]+")
_MAX_PATH = 64
"""Slurm puts UNIX sockets below this folder; their names end at 107 bytes."""


class SandboxError(Exception):
    """A sandbox can't be started or stopped; the text says what to do."""


def _own_prolog() -> tuple[str, ...]:
    # Not resolved: in a venv the scripts are beside the link, not beside the real interpreter.
    return (sys.executable.rpartition("/")[0] + "/flightcheck-prolog",)


class ClusterSpec(msgspec.Struct, frozen=True):
    """A cluster on this machine, all its files below `state`.

    `prolog`, `epilog` and `health` (HealthCheckProgram) are command lines; None configures none.
    In `hook_environment`'s values `%n` stands for the node's name. Raises SandboxError.
    """

    state: str
    nodes: int = 4
    gpus: int = 8
    gpu_type: str = "h100"
    cpus: int = 16
    memory_mb: int = 16_000
    prolog: tuple[str, ...] = msgspec.field(default_factory=_own_prolog)
    epilog: tuple[str, ...] | None = None
    health: tuple[str, ...] | None = None
    health_interval_s: int = 5
    hook_environment: dict[str, str] = {}
    cred_expire_s: int = 5
    extra: tuple[str, ...] = ()
    """More lines of slurm.conf."""
    plugstack: tuple[str, ...] = ()
    """Lines of plugstack.conf (SPANK plugins)."""

    def __post_init__(self) -> None:
        if not _SAFE_PATH.fullmatch(self.state) or len(self.state) > _MAX_PATH:
            raise SandboxError(
                f"state folder: expected an absolute path of at most {_MAX_PATH} letters, digits "
                f"and ._+-/ (Slurm's sockets lie below it), found {self.state!r}"
            )
        for name, low, high in (("nodes", 1, MAX_NODES), ("gpus", 0, 16), ("cpus", 1, 1024)):
            if not low <= getattr(self, name) <= high:
                raise SandboxError(f"{name}: expected {low} to {high}, found {getattr(self, name)}")
        if self.cred_expire_s < 5:
            raise SandboxError("cred_expire_s: expected 5 or more; Slurm takes less for 120")

    @property
    def names(self) -> tuple[str, ...]:
        """node01, node02, …"""
        return tuple(f"node{number:02d}" for number in range(1, self.nodes + 1))

    @property
    def conf(self) -> str:
        """The cluster's slurm.conf: what SLURM_CONF has to name."""
        return f"{self.state}/etc/slurm.conf"
