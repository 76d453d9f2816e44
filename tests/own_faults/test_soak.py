"""State, memory, file handles and processes stay bounded. `make soak` runs ten thousand jobs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_fifty_jobs_and_an_hour_of_health_runs_leave_nothing_that_grows():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", "--pairs", "50", "--hours", "1"],
        cwd=ROOT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exit codes {0: 112}" in done.stdout
