"""The torch that is installed writes dumps, and they are read."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epilog.recorder import read_dumps

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)
SCRIPT = Path(__file__).with_name("gloo_job.py")


def test_a_rank_that_issues_another_collective_is_found_in_fresh_dumps(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "TORCH_FR_BUFFER_SIZE": "200", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path)],
            env={**env, "RANK": str(rank)},
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        for rank in range(4)
    ]
    try:
        for process in ranks:
            process.wait(240)
    finally:
        for process in ranks:
            if process.poll() is None:
                os.kill(process.pid, 9)
                process.wait()
    paths = sorted(tmp_path.glob("trace_*"))
    files = [(path.name, path.open("rb")) for path in paths]
    try:
        result = read_dumps(files)
    finally:
        for _, file in files:
            file.close()
    assert result.notes == ()
    found = result.evidence[0]
    assert (found.klass, found.rank) == ("user/desync", 2)
    assert "broadcast of [4] Float" in found.text
    assert "gloo_job.py" in found.text
