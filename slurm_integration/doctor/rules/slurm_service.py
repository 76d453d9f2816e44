"""slurmctld and slurmd themselves."""

import math
from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_node, about_slurm, advice, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf, clock_text

CLOCK_ADVICE_S, CLOCK_WRONG_S = 5, 60
"""munge refuses a credential 300 s off; a node on its way there is found before."""


@about_node("slurm-reachable")
def slurm_reachable(facts: Facts) -> Iterator[Complaint]:
    """Slurm's configuration can be read."""
    if facts.slurm_trouble:
        yield wrong(
            "Slurm", facts.slurm_trouble,
            "nothing of Slurm was judged, and a failing node could not drain itself",
            "see that `scontrol show config` works as root here; --slurm-conf FILE judges a file, "
            "--node-only this node alone",
        )  # fmt: skip


@about_slurm("slurmd-user")
def slurmd_user(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """slurmd, and so the prolog, runs as root."""
    user = slurm.text("SlurmdUser")
    if user and user.partition("(")[0] != "root":
        yield wrong(
            "slurm.conf", f"SlurmdUser={user}",
            "the prolog can't read the kernel log or drain a node", "SlurmdUser=root",
        )  # fmt: skip


@about_slurm("return-to-service")
def return_to_service(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """A node that was DOWN does not come back by itself."""
    if slurm.text("ReturnToService") == "2":
        yield advice(
            "slurm.conf", "ReturnToService=2",
            "a node that was set DOWN, by a person too, comes back with its next registration, "
            "without proof", "ReturnToService=1",
        )  # fmt: skip


@about_slurm("clock")
def clock(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """This node's clock agrees with slurmctld's."""
    if slurm.as_of is None:
        return
    off = facts.now - slurm.as_of
    if math.fabs(off) <= CLOCK_ADVICE_S:
        return
    tell = wrong if math.fabs(off) > CLOCK_WRONG_S else advice
    yield tell(
        facts.node, f"the clock is {math.fabs(off):.0f} s {'ahead of' if off > 0 else 'behind'} "
        f"slurmctld's ({clock_text(slurm.as_of)})",
        "munge refuses a credential that is 300 s off, and events can't be put in order",
        "chronyc makestep, or systemctl restart chronyd (systemd-timesyncd)",
    )  # fmt: skip


@about_slurm("gres-devices")
def gres_devices(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """gres.conf names the GPUs' device files, or lets Slurm find them."""
    for line in facts.gres:
        if not line.has_devices:
            yield wrong(
                f"{line.file}:{line.line}", f"no File= and no AutoDetect= in: {line.text}",
                "jobs get no SLURM_JOB_GPUS: the prolog can't tell a job's GPUs from others', and "
                "Slurm confines nobody", f"{line.text} File=/dev/nvidia[0-7]",
            )  # fmt: skip
