"""The few facts that tell a node apart from its peers: what a fleet is compared by.

A whole snapshot has 120 kB; a sweep of 10,000 nodes wants 2 kB of each.
"""

from collections.abc import Iterable, Iterator

import msgspec

from healthcheck.baseline import NVLINK_COUNTERS
from healthcheck.model import Gpu, Snapshot

IB_ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)


class Facts(msgspec.Struct, frozen=True):
    """Versions by part (all that this node has of it), and figures by name.

    Names of figures end in their unit: `_c`, `_w`, `_gb_s` (10⁹ bytes), `_gbit_s`, `_s`,
    `_per_hour`. Of several GPUs: the hottest, the mean power, the slowest.
    """

    versions: dict[str, tuple[str, ...]] = {}
    figures: dict[str, float] = {}


def facts_of(node: Snapshot) -> Facts:
    """What of this snapshot can be compared. Unmeasured facts are left out. Pure."""
    versions: dict[str, set[str]] = {}
    for part, version in _versions(node):
        if version:
            versions.setdefault(part, set()).add(str(version))
    figures = {name: round(value, 3) for name, value in _figures(node) if value is not None}
    return Facts({part: tuple(sorted(found)) for part, found in versions.items()}, figures)


def _versions(node: Snapshot) -> Iterator[tuple[str, str | int | None]]:
    if node.driver is not None:
        yield "GPU driver", node.driver.version
        yield "NVML", node.driver.nvml_version
    for gpu in node.gpus or ():
        yield f"VBIOS of {gpu.name or 'GPU'}", gpu.vbios
        yield f"InfoROM of {gpu.name or 'GPU'}", gpu.inforom_image
    for hca in node.hcas or ():
        if not hca.virtual:
            yield f"firmware of {hca.board_id or hca.hca_type or 'HCA'}", hca.firmware


def _figures(node: Snapshot) -> Iterator[tuple[str, float | None]]:
    gpus = [gpu for gpu in node.gpus or () if gpu.handle_error is None]
    yield "gpu_temperature_c", _most(gpu.temperature_c for gpu in gpus)
    yield "gpu_memory_temperature_c", _most(gpu.memory_temperature_c for gpu in gpus)
    power = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    yield "gpu_power_w", sum(power) / len(power) if power else None
    speeds = [speed for gpu in gpus if (speed := _nvlink_gb_s(gpu)) is not None]
    yield "nvlink_gb_s", min(speeds, default=None)
    if node.driver is not None and not node.driver.library_missing:
        yield "driver_answer_s", node.driver.seconds
    if node.hcas:
        yield (
            "network_gbit_s",
            sum(
                port.rate_gb_s or 0.0
                for hca in node.hcas
                for port in hca.ports
                if port.state == "ACTIVE" and not hca.virtual
            ),
        )
    yield from _rates(node, gpus)


def _nvlink_gb_s(gpu: Gpu) -> float | None:
    """All active links of a GPU together, one direction."""
    speeds = [link.speed_mb_s for link in gpu.nvlinks or () if link.active]
    return sum(speed or 0 for speed in speeds) / 1000 if speeds else None


def _rates(node: Snapshot, gpus: list[Gpu]) -> Iterator[tuple[str, float | None]]:
    yield (
        "gpu_ecc_corrected_per_hour",
        _rate(
            node,
            ((g.bus_id, "ecc_aggregate_corrected", g.ecc_aggregate_corrected) for g in gpus),
            lifetime=True,
        ),
    )
    yield (
        "pcie_replays_per_hour",
        _rate(node, ((g.bus_id, "pcie_replays", g.pcie_replays) for g in gpus)),
    )
    yield (
        "pcie_corrected_per_hour",
        _rate(
            node,
            (
                (device.bus_id, "aer_correctable", sum(device.aer.correctable.values()))
                for device in node.pci or ()
                if device.aer is not None
            ),
        ),
    )
    yield (
        "nvlink_errors_per_hour",
        _rate(
            node,
            (
                (gpu.bus_id, f"nvlink{link.index}_{name}", getattr(link, name))
                for gpu in gpus
                for link in gpu.nvlinks or ()
                for name in NVLINK_COUNTERS
            ),
        ),
    )
    yield (
        "network_errors_per_hour",
        _rate(
            node,
            (
                (f"{hca.name}/{port.number}", name, port.counters.get(name))
                for hca in node.hcas or ()
                for port in hca.ports
                for name in IB_ERRORS
            ),
        ),
    )
    yield (
        "memory_corrected_per_hour",
        _rate(node, ((c.name, "corrected", c.corrected) for c in node.memory_controllers or ())),
    )


def _rate(
    node: Snapshot, counters: Iterable[tuple[str, str, int | None]], *, lifetime: bool = False
) -> float | None:
    """Their growth together; None where nothing has a baseline to grow from."""
    grown = [
        growth.per_hour()
        for subject, name, value in counters
        if (growth := node.growth(subject, name, value, lifetime=lifetime)) is not None
    ]
    return sum(grown) if grown else None


def _most(values: Iterable[int | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
