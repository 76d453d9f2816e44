"""The child's environment: clean, so that the node is tested and not somebody's settings."""

import os
from collections.abc import Mapping

from healthcheck.allreduce.model import Plan

KEPT = ("HOME", "CUDA_HOME", "CUDA_PATH", "TZ")
BY_HAND = ("LD_LIBRARY_PATH", "TMPDIR")
"""Kept too, but not in a hook of Slurm's: root must not load a library that a job names."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def child_environment(inherited: Mapping[str, str], site: Mapping[str, str]) -> dict[str, str]:
    """What the child is started with, before the GPUs are known.

    Inherited NCCL_*, TORCH_*, CUDA_*, PYTHON* and all else but KEPT and BY_HAND goes; `site` is
    what the site's configuration wants set (NCCL_SOCKET_IFNAME and the like).
    """
    kept = KEPT if "SLURM_SCRIPT_CONTEXT" in inherited else (*KEPT, *BY_HAND)
    env = {name: inherited[name] for name in kept if name in inherited}
    env |= {
        "PATH": PATH,
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "NCCL_DEBUG": "WARN",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    return env | dict(site)


def plan_environment(plan: Plan) -> dict[str, str]:
    """What the child sets before it touches a device: the job's GPUs, and the path's settings."""
    env = dict(plan.env)
    if plan.backend == "gloo":
        env["CUDA_VISIBLE_DEVICES"] = ""
    elif plan.gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid or str(gpu.index) for gpu in plan.gpus)
    return env


def untrusted(interpreter: str) -> str | None:
    """Why root must not run this interpreter, or None. Law 8: not what others can replace."""
    for path in (interpreter, os.path.realpath(interpreter)):
        for one in (path, os.path.dirname(path)):
            try:
                state = os.stat(one)
            except OSError as error:
                return f"{one}: {error.strerror}"
            if os.geteuid() == 0 and (state.st_uid != 0 or state.st_mode & 0o022):
                return (
                    f"{one} belongs to uid {state.st_uid} with mode {state.st_mode & 0o777:03o}; "
                    "root runs only what root alone can change: point [allreduce] interpreter "
                    "at such an installation"
                )
    return None
