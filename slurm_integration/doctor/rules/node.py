"""This machine: our folders, munge, the driver."""

from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_node, about_slurm, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf


@about_node("folders")
def folders(facts: Facts) -> Iterator[Complaint]:
    """Our folders can be used, and nobody but root can change what is in them."""
    for folder in facts.folders:
        if folder.problem:
            yield wrong(
                folder.path, f"{folder.role}: {folder.problem}",
                "nothing is remembered from one look to the next",
                f"install -d -o root -g root -m 700 {folder.path}",
            )  # fmt: skip
        elif folder.loose:
            yield wrong(
                folder.path, f"{folder.role}: {'; '.join(folder.loose)}",
                "root reads there what a node remembers, so whoever can write there can clear or "
                "condemn a node", f"chown root:root {folder.path}; chmod go-w {folder.path}",
            )  # fmt: skip


@about_slurm("munge")
def munge(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """munged answers, where Slurm uses it."""
    if slurm.text("AuthType") == "auth/munge" and facts.munge_problem:
        yield wrong(
            facts.munge_socket, f"munge: {facts.munge_problem}",
            "neither slurmd nor scontrol can prove who they are",
            "systemctl restart munge; systemctl status munge",
        )  # fmt: skip


@about_node("nvml")
def nvml(facts: Facts) -> Iterator[Complaint]:
    """A node with GPUs has NVML."""
    if facts.hardware.gpus and facts.hardware.nvml_problem:
        yield wrong(
            facts.node, f"{facts.hardware.gpus} NVIDIA GPUs on the PCI bus, but "
            f"{facts.hardware.nvml_problem}",
            "without the driver's library no GPU can be judged, and jobs can't use them",
            "install the driver (nvidia-utils, libnvidia-compute), then run nvidia-smi",
        )  # fmt: skip
