"""How many GPUs there are, on the bus and for CUDA."""

from collections.abc import Iterator
from typing import Annotated

import msgspec

from healthcheck.baseline import GPU_COUNTERS
from healthcheck.checks._gpus import NODE, listed, nvml_trouble, pci_gpus, usable
from healthcheck.model import Action, Finding, Snapshot, Unmeasured, fail, warn
from healthcheck.registry import check


class CountLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPUs of a node of this type."""

    gpus: Annotated[int, msgspec.Meta(ge=1, le=256)]


@check("gpu-count", limits=CountLimits, source="visibility fails closed: fewer GPUs is no-go")
def gpu_count(node: Snapshot, limits: CountLimits) -> Iterator[Finding]:
    """As many GPUs are visible, on the PCI bus and through NVML, as this node type has.

    What it means: a GPU that is gone has usually fallen off the bus; the job would be given
    fewer than it asked for, or crash at start.

    What we do: fail with fewer, naming the missing addresses as far as the bus or the last look
    tells them; warn with more, since the profile is then the wrong one.

    What to do: reboot or power-cycle. If the same GPU is missing again, have it replaced.
    """
    expected = limits.gpus
    trouble = nvml_trouble(node.driver)
    if trouble is not None:
        yield fail(
            NODE,
            f"0 of {expected} GPUs usable: {trouble}",
            measured=0,
            expected=expected,
            action=Action.REBOOT,
            limit="gpus",
        )
        return
    on_bus = None if node.pci is None else len(pci_gpus(node))
    in_nvml = None if node.gpus is None else sum(map(usable, node.gpus))
    counts = [count for count in (on_bus, in_nvml) if count is not None]
    if not counts:
        raise Unmeasured("neither NVML nor the PCI bus could be read")
    if min(counts) < expected:
        yield _fewer(node, expected, on_bus, in_nvml)
    elif in_nvml is None:
        problem = node.problems.get("gpus")
        raise Unmeasured(problem.reason if problem else "NVML was not read")
    elif max(counts) > expected:
        yield warn(
            NODE,
            f"{max(counts)} GPUs visible, the profile says {expected}: is it the right profile?",
            measured=max(counts),
            expected=expected,
            limit="gpus",
        )


def _fewer(node: Snapshot, expected: int, on_bus: int | None, in_nvml: int | None) -> Finding:
    count = min(c for c in (on_bus, in_nvml) if c is not None)
    missing = _missing(node)
    where = "" if on_bus is None else f"; {on_bus} on the PCI bus"
    where += "" if in_nvml is None else f", {in_nvml} usable through NVML"
    named = f" (missing {listed(missing)})" if 0 < len(missing) <= expected else ""
    return fail(
        missing[0] if len(missing) == 1 else NODE,
        f"{count} of {expected} GPUs visible{named}{where}",
        measured=count,
        expected=expected,
        action=Action.REBOOT,
        limit="gpus",
    )


def _missing(node: Snapshot) -> list[str]:
    """Addresses that the bus or the last look knows and that CUDA cannot use now."""
    on_bus = {device.bus_id for device in pci_gpus(node)}
    remembered = {
        key.partition("|")[0]
        for key in (node.baseline.counters if node.baseline else ())
        if key.partition("|")[2] in GPU_COUNTERS
    }
    if node.gpus is None:
        return sorted(remembered - on_bus) if node.pci is not None else []
    in_nvml = {gpu.bus_id for gpu in node.gpus if usable(gpu)}
    here = in_nvml & on_bus if node.pci is not None else in_nvml
    known = {gpu.bus_id for gpu in node.gpus if gpu.bus_id}
    return sorted((on_bus | remembered | known) - here)
