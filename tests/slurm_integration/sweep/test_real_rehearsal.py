"""The drill's rehearsal on another node, which it reads through the sweep's transports."""

import json
import subprocess

import pytest

pytestmark = pytest.mark.slurm

IDLE, DRAINED = "node01", "node05"


@pytest.mark.parametrize("node", [IDLE, DRAINED])
def test_a_fault_is_rehearsed_on_another_node_and_nothing_changes(fleet, node):
    """Through srun on an idle node, through ssh on a drained one."""
    if node == DRAINED:
        fleet.slurm.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=mine")
    before = fleet.slurm.nodes()
    done = subprocess.run(
        [fleet.argv()[0], "drill", "--dry-run", "--json", "--node", node, "--fault", "xid-79",
         "--stage", "prolog", "--program", fleet.program, "--ssh-config", str(fleet.ssh_config),
         "--config", str(fleet.config)],
        env=fleet.environment(), capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["node"], told["end"], told["verdict"]) == (node, "found", "no-go")
    assert told["decision"] == "drain"
    assert "would drain" in told["budget"] if node != DRAINED else "mine" in told["budget"]
    fleet.slurm.wait(lambda: fleet.slurm.nodes() == before)
