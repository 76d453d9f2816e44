"""Starting and ending real sandbox clusters."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from slurm_integration.sandbox import cluster
from slurm_integration.sandbox.cluster import processes

pytestmark = pytest.mark.slurm


@pytest.fixture
def state():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    folder = tempfile.mkdtemp(prefix="fc-two-", dir="/tmp")
    Path(folder).chmod(0o755)
    try:
        yield folder
    finally:
        cluster.down(folder)
        shutil.rmtree(folder, ignore_errors=True)


def small(state: str, **changes: object) -> cluster.ClusterSpec:
    base = {"nodes": 2, "prolog": ("/bin/true",), **changes}
    return cluster.ClusterSpec(state, **base)  # type: ignore[arg-type]


def test_a_second_cluster_runs_beside_the_first(running_cluster, state):
    began = cluster.up(small(state))
    assert began.ready
    assert [node.name for node in began.nodes] == ["node01", "node02"]
    shown = cluster.client(state, "srun", "-N2", "--gres=gpu:2", "printenv", "SLURM_STEP_GPUS")
    assert shown.stdout.split() == ["0,1", "0,1"], shown.stderr
    assert len(running_cluster.nodes()) == 8
    assert cluster.status(str(running_cluster.state)).running


def test_up_twice_is_refused_and_changes_nothing(state):
    cluster.up(small(state))
    with pytest.raises(cluster.SandboxError, match="already runs"):
        cluster.up(small(state))
    assert cluster.status(state).ready


def test_down_ends_jobs_and_what_escaped_from_them(state):
    cluster.up(small(state))
    line = "setsid sleep 4321 & srun sleep 4321"
    cluster.client(state, "sbatch", "--output=/dev/null", f"--wrap={line}")
    until = time.monotonic() + 240
    while cluster.client(state, "squeue", "-h", "-t", "R").stdout == "":
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(1)
    found = processes.find(state)
    commands = [Path(f"/proc/{p.pid}/cmdline").read_bytes() for p in found]
    assert sum(b"sleep\x004321" in command for command in commands) >= 2
    assert any(b"slurmstepd" in command for command in commands)
    assert cluster.down(state) >= len(found)
    assert processes.find(state) == []
    assert not cluster.status(state).running


def test_down_and_up_again_in_the_same_folder(state):
    cluster.up(small(state))
    cluster.down(state)
    assert cluster.up(small(state, nodes=3)).ready


def test_down_with_remove_takes_the_folder(state):
    cluster.up(small(state))
    cluster.down(state, remove=True)
    assert not os.path.exists(state)


def test_a_folder_that_is_no_sandbox_is_never_removed(tmp_path):
    (tmp_path / "precious").write_text("x")
    assert cluster.down(str(tmp_path), remove=True) == 0
    assert (tmp_path / "precious").exists()


def test_configuration_that_slurm_refuses_leaves_nothing_running_and_says_why(state):
    with pytest.raises(cluster.SandboxError, match="slurmctld") as error:
        cluster.up(small(state, extra=("NoSuchOption=1",)))
    assert "NoSuchOption" in str(error.value)
    assert processes.find(state) == []


def test_an_operators_shell_pointed_at_the_sandbox_is_not_ended(state):
    cluster.up(small(state))
    shell = processes.subprocess.Popen(
        ["sleep", "60"], env={"SLURM_CONF": f"{state}/etc/slurm.conf", "SLURM_JOB_ID": "1"}
    )
    try:
        cluster.down(state)
        assert shell.poll() is None
    finally:
        shell.kill()
        shell.wait()
