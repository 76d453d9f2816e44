"""GPUs that ought to be here by all we can tell, where the profile expects none."""

from collections.abc import Iterator

from healthcheck.baseline import GPU_COUNTERS
from healthcheck.checks._gpus import NODE, listed, pci_gpus
from healthcheck.model import Action, Finding, NotApplicable, Snapshot, Unmeasured, fail
from healthcheck.registry import NoLimits, check


@check("gpu-presence", source='"I see none" is never "nothing to check"')
def gpu_presence(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """Wherever a job was given GPUs, or the NVIDIA driver runs, there are GPUs.

    What it means: a node that lost all its GPUs looks like a node that never had any. Its job's
    devices, the loaded kernel module and the counters remembered from before say otherwise.

    What we do: fail where one of these speaks of GPUs and neither the PCI bus nor NVML shows one,
    or where the job was given a device that no GPU here has.

    What to do: power-cycle the node; if the GPUs stay away, call hardware service.
    """
    if node.pci is None and not node.gpus:
        raise Unmeasured("the PCI bus was not read and NVML shows no GPU")
    if pci_gpus(node) or node.gpus:
        yield from _unknown_devices(node)
        return
    traces = list(_traces(node))
    if not traces:
        raise NotApplicable("no GPU in sight, and nothing says that there should be one")
    yield fail(
        NODE,
        f"no GPU on the PCI bus or in NVML, but {' and '.join(traces)}",
        measured=0,
        expected="at least 1 GPU",
        action=Action.REBOOT,
    )


def _traces(node: Snapshot) -> Iterator[str]:
    """What says that there should be GPUs."""
    job = node.job
    if job and job.gpu_minors:
        devices = listed([f"/dev/nvidia{minor}" for minor in job.gpu_minors])
        yield f"job {job.job_id} was given {devices}"
    elif job and job.gpu_uuids:
        yield f"job {job.job_id} was given {listed(job.gpu_uuids, 2)}"
    if "nvidia" in (node.modules or ()):
        yield "the nvidia kernel module is loaded, which it only stays with a GPU"
    if node.baseline is not None:
        known = {
            key.partition("|")[0]
            for key in node.baseline.counters
            if key.partition("|")[2] in GPU_COUNTERS
        }
        if known:
            yield f"{len(known)} GPUs were here before ({listed(sorted(known), 2)})"


def _unknown_devices(node: Snapshot) -> Iterator[Finding]:
    """Devices of the job that no GPU has, where every GPU says which device it is."""
    minors = node.job.gpu_minors if node.job else None
    known = [gpu.minor_number for gpu in node.gpus or ()]
    if not minors or not known or None in known:
        return
    gone = [f"/dev/nvidia{minor}" for minor in minors if minor not in known]
    if gone:
        yield fail(
            NODE,
            f"job {node.job.job_id if node.job else 0} was given {listed(gone)}, "
            f"and no GPU here has it ({len(known)} GPUs are visible)",
            measured=len(known),
            expected=listed(gone),
            action=Action.REBOOT,
        )
