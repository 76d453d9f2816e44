"""Nodes for what goes wrong with flightcheck itself: a healthy one, one with a lost GPU, and a job
that failed."""

import shutil
from pathlib import Path

import pytest

from slurm_integration.sandbox.machine import live

LOG = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 12, in <module>
[rank0]: ValueError: expected 4 heads, found 5
"""


@pytest.fixture(scope="session")
def sick_template(h100_template, tmp_path_factory) -> Path:
    """The healthy node after one of its GPUs fell off the bus; nobody has looked since."""
    root = tmp_path_factory.mktemp("sick") / "node01"
    shutil.copytree(h100_template, root, symlinks=True)
    live.break_machine(str(root), "xid-79")
    return root


@pytest.fixture
def failed_job(job, tmp_path) -> dict[str, str]:
    """What slurmd gives the epilog of a job that raised an error."""
    work = tmp_path / "work"
    work.mkdir()
    for folder in (work, *work.parents[:3]):
        folder.chmod(0o755)
    (work / "slurm.out").write_text(LOG)
    return {
        **job,
        "SLURM_JOB_UID": "65534", "SLURM_JOB_GID": "65534", "SLURM_NODELIST": "node01",
        "SLURM_JOB_WORK_DIR": str(work), "SLURM_JOB_STDOUT": str(work / "slurm.out"),
        "SLURM_JOB_EXIT_CODE2": "1:0", "SLURM_JOB_EXIT_CODE": "256",
        "SLURM_SCRIPT_CONTEXT": "epilog_slurmd",
    }  # fmt: skip
