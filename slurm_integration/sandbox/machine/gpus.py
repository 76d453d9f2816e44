"""What NVML reports of a healthy machine."""

import uuid
from typing import Any

from slurm_integration.sandbox.machine.types import MIB, GpuModel, NodeType
from slurm_integration.sandbox.nvml.model import SimulatedGpu, SimulatedNvLink, SimulatedNvml


def simulated_nvml(kind: NodeType, node: str) -> SimulatedNvml:
    """The driver and GPUs of a healthy node; serials and uuids follow from the node's name."""
    assert kind.gpu is not None
    buses = [slot.bus_id for slot in kind.slots if slot.role == "gpu"]
    switches = [slot.bus_id for slot in kind.slots if slot.role == "nvswitch"]
    gpus = tuple(_gpu(kind, kind.gpu, index, buses, switches, node) for index in range(len(buses)))
    return SimulatedNvml(gpus=gpus)


def _gpu(
    kind: NodeType, model: GpuModel, index: int, buses: list[str], switches: list[str], node: str
) -> SimulatedGpu:
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}/gpu/{index}")
    power = model.power_w * 1000
    return SimulatedGpu(
        bus_id=buses[index],
        uuid=f"GPU-{identity}",
        serial=f"16{identity.int % 10**11:011d}",
        minor_number=index,
        name=model.name,
        vbios_version=model.vbios,
        inforom_image_version=model.inforom,
        pci_device_id=model.device << 16 | 0x10DE,
        pci_subsystem_id=model.subsystem << 16 | 0x10DE,
        board_id=int(buses[index][5:7], 16) << 8,
        module_id=index + 1 if model.links_to == "switch" else None,
        architecture=model.architecture,
        cuda_capability_major=model.capability[0],
        cuda_capability_minor=model.capability[1],
        numa_node=0 if index < len(buses) // 2 else 1,
        mig_mode=False if model.mig else None,
        mig_mode_pending=False if model.mig else None,
        temperature_c=model.idle_c + index % 3,
        memory_temperature_c=None if model.memory_max_c is None else model.idle_c + 8 + index % 3,
        margin_temperature_c=model.slowdown_c - model.idle_c - index % 3,
        threshold_shutdown_c=model.shutdown_c,
        threshold_slowdown_c=model.slowdown_c,
        threshold_memory_max_c=model.memory_max_c,
        threshold_gpu_max_c=model.slowdown_c - 2,
        memory_clock_mhz=model.memory_mhz,
        max_graphics_clock_mhz=model.sm_mhz,
        max_sm_clock_mhz=model.sm_mhz,
        max_memory_clock_mhz=model.memory_mhz,
        application_graphics_clock_mhz=model.sm_mhz,
        application_memory_clock_mhz=model.memory_mhz,
        power_usage_mw=power // 10 + 1_000 * (index % 4),
        power_limit_mw=power,
        power_default_limit_mw=power,
        power_enforced_limit_mw=power,
        power_min_limit_mw=power // 4,
        power_max_limit_mw=power,
        pcie_generation=model.pcie_generation,
        pcie_max_generation=model.pcie_generation,
        pcie_gpu_max_generation=model.pcie_generation,
        memory_total_bytes=model.memory_mib * MIB,
        memory_reserved_bytes=model.memory_mib * MIB // 160,
        memory_used_bytes=0,
        nvlinks=_links(model, index, buses, switches),
        **_fabric(kind, model),
    )


def _links(
    model: GpuModel, index: int, buses: list[str], switches: list[str]
) -> tuple[SimulatedNvLink, ...]:
    if model.links_to == "none":
        return ()
    ends = switches or [""]
    common: dict[str, Any] = {
        "version": model.link_version,
        "speed_mbps": model.link_mb_s,
        "remote_device_type": 2,
    }
    if model.links_to == "gpu":
        # Bridged pairs: 0 with 1, 2 with 3.
        ends = [buses[index ^ 1]]
        common |= {"remote_device_type": 0, "remote_pci_device_id": model.device << 16 | 0x10DE}
    if model.link_version >= 7:
        common |= dict.fromkeys(_NVLINK5_COUNTERS, 0) | dict.fromkeys(_OLDER_COUNTERS)
    return tuple(
        SimulatedNvLink(remote_bus_id=ends[link * len(ends) // model.links], **common)
        for link in range(model.links)
    )


_OLDER_COUNTERS = ("replay_errors", "recovery_errors", "crc_flit_errors", "crc_data_errors")
"""Not supported any more on NVLink 5."""
_NVLINK5_COUNTERS = (
    "malformed_packet_errors",
    "buffer_overrun_errors",
    "receive_errors",
    "receive_remote_errors",
    "receive_general_errors",
    "local_integrity_errors",
    "transmit_discards",
    "recovery_successful_events",
    "recovery_failed_events",
    "recovery_events",
    "effective_errors",
    "symbol_errors",
)


def _fabric(kind: NodeType, model: GpuModel) -> dict[str, Any]:
    if not model.fabric:
        nothing = ("state", "status", "clique_id", "health_mask", "health_summary")
        return {f"fabric_{name}": None for name in nothing}
    if kind.imex:
        cluster = str(uuid.uuid5(uuid.NAMESPACE_DNS, "simulated NVL72 domain"))
        return {"fabric_cluster_uuid": cluster, "fabric_clique_id": 32766}
    return {}
