"""A machine's files, and putting them into a folder."""

import os
import shutil
from pathlib import Path

from slurm_integration.sandbox.machine import (
    files_gpu,
    files_infiniband,
    files_pci,
    files_proc,
    files_system,
)
from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.machine.tree import Link, write_changes, write_new
from slurm_integration.sandbox.nvml.build import LIBRARY_NAME, build_library

_SUBJECTS = (files_pci, files_infiniband, files_gpu, files_proc, files_system)


def tree_of(machine: Machine) -> dict[str, bytes | Link]:
    """Path below the root → contents, for every file of the machine but the NVML library."""
    return {path: content for subject in _SUBJECTS for path, content in subject.files(machine)}


def write_machine(root: str, machine: Machine, before: Machine | None, cache: str) -> None:
    """Make the folder show `machine`; `before` is what it shows now (None: it is new).

    Only what differs is written, file by file at one stroke. The NVML library is compiled once
    into `cache`. Raises OSError and nvml.build.BuildError.
    """
    if before is None:
        write_new(root, tree_of(machine))
        if machine.nvml is not None:
            _install_library(root, cache)
        return
    write_changes(root, tree_of(before), tree_of(machine))


def _install_library(root: str, cache: str) -> None:
    """A copy and no link: the loader takes two names of one file for one library, and a process
    that looks at two machines would see the first one twice.
    """
    library = build_library(Path(cache))
    target = f"{root}/{files_gpu.LIBRARY_FOLDER}/{LIBRARY_NAME}"
    shutil.copyfile(library, target)
    os.chmod(target, 0o755)  # noqa: S103 - a library


def default_cache() -> str:
    """Where the compiled library is kept: $XDG_CACHE_HOME/flightcheck or ~/.cache/flightcheck."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{base}/flightcheck"
