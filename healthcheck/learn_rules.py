"""What can be learned of a good node: one small rule a figure, facts → value.

A rule gives None where this kind of node has no such thing, and raises Unclear where it has one
that was not measured or that differs between its parts.
"""

from collections.abc import Callable, Iterable
from typing import Any

from healthcheck.model import Gpu, PciDevice, Snapshot

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s a lane → PCIe generation (PCI Express Base Specification)."""
MODULES = ("nvidia", "nvidia_uvm", "nvidia_peermem", "gdrdrv", "mlx5_core", "mlx5_ib")
"""Modules worth expecting again, where they are loaded."""


class Unclear(Exception):  # noqa: N818 - an answer, told in the profile's comments
    """A figure that this node does not give; the text says why."""


def real(node: Snapshot, kind: str) -> list[PciDevice]:
    """Physical devices of a kind; no virtual functions."""
    return [d for d in node.pci or () if d.kind == kind and not d.virtual]


def _gpus(node: Snapshot) -> tuple[Gpu, ...]:
    if node.pci is not None and not real(node, "gpu"):
        return ()
    if not node.gpus:
        problem = node.problems.get("gpus")
        raise Unclear(problem.reason if problem else "NVML gave no GPU")
    return node.gpus


def _same(values: Iterable[Any]) -> Any:
    """The one value that all have. None where there is nothing; Unclear where they differ."""
    found = set(values)
    if not found:
        return None
    if None in found:
        raise Unclear("not measured" if len(found) == 1 else "not measured everywhere")
    if len(found) > 1:
        raise Unclear(f"differs within the node: {', '.join(map(str, sorted(found)))}")
    return found.pop()


def _least(values: Iterable[Any]) -> Any:
    """The smallest value. None where there is nothing; Unclear where one was not measured."""
    found = list(values)
    if None in found:
        raise Unclear("not measured" if set(found) == {None} else "not measured everywhere")
    return min(found, default=None)


def _each(field: str, choose: Callable[[Iterable[Any]], Any] = _same) -> Callable[[Snapshot], Any]:
    """A rule over one field of every GPU."""
    return lambda node: choose(getattr(gpu, field) for gpu in _gpus(node))


def _gpu_count(node: Snapshot) -> int | None:
    if node.pci is None:
        raise Unclear("the PCI devices were not read")
    return len(real(node, "gpu")) or None


def _gpu_memory(node: Snapshot) -> int | None:
    least = _least(gpu.memory_total_bytes for gpu in _gpus(node))
    return None if least is None else int(least) >> 30


def _slowdown(margin: int) -> Callable[[Snapshot], int | None]:
    """So many degrees below the temperature at which the driver slows the GPU down."""

    def rule(node: Snapshot) -> int | None:
        at = _least(gpu.temperature_slowdown_c for gpu in _gpus(node))
        return None if at is None else int(at) - margin

    return rule


def _power_limit(node: Snapshot) -> int | None:
    least = _least(gpu.power_limit_enforced_w or gpu.power_limit_w for gpu in _gpus(node))
    return None if least is None else int(least)


def _nvlinks(node: Snapshot) -> int | None:
    links = [gpu.nvlinks for gpu in _gpus(node)]
    if all(link is None for link in links):
        return None  # this hardware has none, or none that NVML tells of
    active = _same(None if found is None else sum(bool(n.active) for n in found) for found in links)
    return int(active) or None


def _nvlink_speed(node: Snapshot) -> int | None:
    active = [n for gpu in _gpus(node) for n in gpu.nvlinks or () if n.active]
    return int(speed) if (speed := _least(n.speed_mb_s for n in active)) else None


def _fabric(node: Snapshot) -> bool | None:
    states = {gpu.fabric.state if gpu.fabric else 0 for gpu in _gpus(node)}
    if states <= {0}:
        return None
    if states != {3}:
        raise Unclear("not every GPU is registered with the fabric")
    return True


def _p2p(node: Snapshot) -> bool | None:
    if not node.p2p:
        return None
    return True if all(pair.status == 0 for pair in node.p2p) else None


def _lanes(kind: str) -> Callable[[Snapshot], int | None]:
    def rule(node: Snapshot) -> int | None:
        width = _same(device.link_width for device in real(node, kind))
        return int(width) if width else None

    return rule


def _generation(kind: str) -> Callable[[Snapshot], int | None]:
    """What a GPU's link can do, since an idle one is slowed down, and what a NIC's does."""
    field = "link_speed_max_gt_s" if kind == "gpu" else "link_speed_gt_s"

    def rule(node: Snapshot) -> int | None:
        speed = _same(getattr(device, field) for device in real(node, kind))
        return None if speed is None else GENERATIONS.get(float(speed))

    return rule


def _real_hcas(node: Snapshot) -> list[Any]:
    return [hca for hca in node.hcas or () if not hca.virtual]


def _active_ports(node: Snapshot) -> list[tuple[str, Any]]:
    return [
        (f"{hca.name}/{port.number}", port)
        for hca in _real_hcas(node)
        for port in hca.ports
        if port.state == "ACTIVE"
    ]


def _hcas(node: Snapshot) -> int | None:
    return len(_real_hcas(node)) or None


def _ports(node: Snapshot) -> int | None:
    return len(_active_ports(node)) or None


def _rate(node: Snapshot) -> float | int | None:
    rate = _least(port.rate_gb_s for _, port in _active_ports(node))
    return int(rate) if rate is not None and float(rate).is_integer() else rate


def _link_layer(node: Snapshot) -> str | None:
    layer = _same(port.link_layer for _, port in _active_ports(node))
    return None if layer is None else str(layer)


def _port_names(node: Snapshot) -> list[str] | None:
    return [name for name, _ in _active_ports(node)] or None


def _host_memory(node: Snapshot) -> int | None:
    if node.memory is None:
        raise Unclear("the host's memory was not read")
    return int(node.memory.total_bytes) >> 30


def _modules(node: Snapshot) -> list[str] | None:
    if node.modules is None:
        raise Unclear("the kernel's modules were not read")
    return [name for name in MODULES if name in node.modules] or None


def _driver(node: Snapshot) -> str | None:
    return node.driver.version if node.driver else None


RULES: tuple[tuple[str, str, Callable[[Snapshot], Any]], ...] = (
    ("gpu-count", "gpus", _gpu_count),
    ("gpu-memory", "min_gib", _gpu_memory),
    ("gpu-temperature", "warn_c", _slowdown(5)),
    ("gpu-temperature", "fail_c", _slowdown(0)),
    ("gpu-clocks", "max_sm_mhz", _each("sm_clock_max_mhz", _least)),
    ("gpu-power-limit", "limit_w", _power_limit),
    ("gpu-modes", "ecc", _each("ecc_enabled")),
    ("gpu-modes", "mig", _each("mig_enabled")),
    ("gpu-driver-version", "minimum", _driver),
    ("nvlink-links", "links", _nvlinks),
    ("nvlink-speed", "speed_mb_s", _nvlink_speed),
    ("nvlink-fabric", "required", _fabric),
    ("nvlink-p2p", "required", _p2p),
    ("pcie-width", "gpu", _lanes("gpu")),
    ("pcie-width", "nic", _lanes("nic")),
    ("pcie-generation", "gpu", _generation("gpu")),
    ("pcie-generation", "nic", _generation("nic")),
    ("ib-devices", "hcas", _hcas),
    ("ib-ports", "active", _ports),
    ("ib-ports", "rate_gb_s", _rate),
    ("ib-ports", "link_layer", _link_layer),
    ("ib-ports", "names", _port_names),
    ("memory-size", "min_gib", _host_memory),
    ("kernel-modules", "modules", _modules),
)
