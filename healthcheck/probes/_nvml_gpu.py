"""Everything NVML says about one GPU, but for its links to others."""

from typing import Any

from healthcheck.host import Host
from healthcheck.probes._nvml_calls import Calls, number, text
from healthcheck.probes._nvml_fields import Field, field_id, read_fields
from healthcheck.probes._nvml_links import read_fabric, read_links

_TEXTS = (
    ("uuid", "nvmlDeviceGetUUID"),
    ("serial", "nvmlDeviceGetSerial"),
    ("name", "nvmlDeviceGetName"),
    ("vbios", "nvmlDeviceGetVbiosVersion"),
    ("inforom_image", "nvmlDeviceGetInforomImageVersion"),
)
_NUMBERS: tuple[tuple[str, tuple[tuple[Any, ...], ...]], ...] = (
    ("minor_number", (("nvmlDeviceGetMinorNumber",),)),
    ("persistence_mode", (("nvmlDeviceGetPersistenceMode",),)),
    # memory error type (0 corrected, 1 uncorrected), counter type (0 volatile, 1 aggregate)
    ("ecc_volatile_corrected", (("nvmlDeviceGetTotalEccErrors", 0, 0),)),
    ("ecc_volatile_uncorrected", (("nvmlDeviceGetTotalEccErrors", 1, 0),)),
    ("ecc_aggregate_corrected", (("nvmlDeviceGetTotalEccErrors", 0, 1),)),
    ("ecc_aggregate_uncorrected", (("nvmlDeviceGetTotalEccErrors", 1, 1),)),
    ("temperature_c", (("nvmlDeviceGetTemperature", 0), ("nvmlDeviceGetTemperatureV", 0))),
    ("temperature_margin_c", (("nvmlDeviceGetMarginTemperature",),)),
    ("temperature_slowdown_c", (("nvmlDeviceGetTemperatureThreshold", 1),)),
    ("sm_clock_mhz", (("nvmlDeviceGetClockInfo", 1),)),
    ("sm_clock_max_mhz", (("nvmlDeviceGetMaxClockInfo", 1),)),
    ("power_source", (("nvmlDeviceGetPowerSource",),)),
    ("pcie_generation", (("nvmlDeviceGetCurrPcieLinkGeneration",),)),
    ("pcie_generation_max", (("nvmlDeviceGetMaxPcieLinkGeneration",),)),
    ("pcie_width", (("nvmlDeviceGetCurrPcieLinkWidth",),)),
    ("pcie_width_max", (("nvmlDeviceGetMaxPcieLinkWidth",),)),
    ("pcie_replays", (("nvmlDeviceGetPcieReplayCounter",),)),
)
_MILLIWATTS = (
    ("power_w", "nvmlDeviceGetPowerUsage"),
    ("power_limit_w", "nvmlDeviceGetPowerManagementLimit"),
    ("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit"),
    ("power_limit_enforced_w", "nvmlDeviceGetEnforcedPowerLimit"),
)
SLOW_STAGES = ("health", "sweep")
"""Stages with time to check the infoROM, which is read from its flash and can take long."""


def read_gpu(calls: Calls, handle: Any, stage: str, host: Host) -> dict[str, Any]:
    """The facts of one GPU by the model's names; what it would not tell is left out."""
    facts: dict[str, Any] = {}
    for key, name in _TEXTS:
        facts[key] = text(calls.get(name, handle))
    for key, choices in _NUMBERS:
        for name, *arguments in choices:
            value = calls.get(name, handle, *arguments)
            if value is not None:
                facts[key] = number(value)
                break
    for key, name in _MILLIWATTS:
        value = number(calls.get(name, handle))
        facts[key] = None if value is None else value / 1000.0
    if facts.get("persistence_mode") is not None:
        facts["persistence_mode"] = bool(facts["persistence_mode"])
    facts["clock_event_reasons"] = tuple(clock_event_reasons(calls, handle))
    _read_modes(calls, handle, facts)
    _read_memory_errors(calls, handle, facts)
    _read_use(calls, handle, facts, host)
    _read_by_field(calls, handle, facts)
    if stage in SLOW_STAGES:
        facts["inforom_valid"] = _inforom_valid(calls, handle)
    return {key: value for key, value in facts.items() if value is not None}


def clock_event_reasons(calls: Calls, handle: Any) -> list[int]:
    """One sample of why the clocks are not higher, as a list that is empty where unsupported."""
    value = number(
        calls.first(
            ("nvmlDeviceGetCurrentClocksEventReasons", handle),
            ("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
        )
    )
    return [] if value is None else [value]


def _read_modes(calls: Calls, handle: Any, facts: dict[str, Any]) -> None:
    for kind, name in (("ecc", "nvmlDeviceGetEccMode"), ("mig", "nvmlDeviceGetMigMode")):
        modes = calls.get(name, handle)
        if modes is not None:
            facts[f"{kind}_enabled"], facts[f"{kind}_pending"] = bool(modes[0]), bool(modes[1])


def _read_memory_errors(calls: Calls, handle: Any, facts: dict[str, Any]) -> None:
    nvml = calls.nvml
    made = getattr(nvml, "c_nvmlEccSramErrorStatus_v1_t", None)
    version = getattr(nvml, "nvmlEccSramErrorStatus_v1", None)
    if made is not None and version is not None:
        from ctypes import byref

        status = made()
        status.version = version
        if calls.get("nvmlDeviceGetSramEccErrorStatus", handle, byref(status)) is not None:
            facts["sram_threshold_exceeded"] = bool(status.bThresholdExceeded)
    repair = calls.get("nvmlDeviceGetRepairStatus", handle)
    if repair is not None:
        facts["repair_pending"] = any(repair)
    if facts.get("mig_enabled"):
        return  # row remapping is not reported under MIG
    rows = calls.get("nvmlDeviceGetRemappedRows", handle)
    if rows is None:
        pending = calls.get("nvmlDeviceGetRetiredPagesPendingStatus", handle)
        facts["retired_pages_pending"] = None if pending is None else bool(pending)
        return
    facts["remapped_correctable"], facts["remapped_uncorrectable"] = rows[0], rows[1]
    facts["remap_pending"], facts["remap_failed"] = bool(rows[2]), bool(rows[3])


def _read_use(calls: Calls, handle: Any, facts: dict[str, Any], host: Host) -> None:
    used = calls.get("nvmlDeviceGetUtilizationRates", handle)
    if used is not None:
        facts["utilization_percent"] = number(used.gpu)
    version = getattr(calls.nvml, "nvmlMemory_v2", None)
    memory = None
    if version is not None:
        # The second version leaves the driver's own reserve out of `used`.
        memory = calls.get("nvmlDeviceGetMemoryInfo", handle, version)
    if memory is None:
        memory = calls.get("nvmlDeviceGetMemoryInfo", handle)
    if memory is not None:
        facts["memory_total_bytes"], facts["memory_used_bytes"] = memory.total, memory.used
    facts["processes"] = _processes(calls, handle, host)


def _processes(calls: Calls, handle: Any, host: Host) -> tuple[dict[str, Any], ...] | None:
    found = []
    measured = False
    for kind in ("Compute", "Graphics"):
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        running = calls.first((f"{name}_v3", handle), (f"{name}_v2", handle), (name, handle))
        if running is None:
            continue
        measured = True
        for process in running:
            memory = number(process.usedGpuMemory)
            told = {"pid": int(process.pid), "memory_bytes": memory, "kind": kind.lower()}
            found.append(told | _owner(host, told["pid"]))
    return tuple(found) if measured else None


def _owner(host: Host, pid: Any) -> dict[str, Any]:
    """Name and real uid of a process, where the process is there and says so."""
    try:
        status = host.read_text(f"/proc/{pid}/status", 4096)
    except OSError:
        return {}
    told: dict[str, Any] = {}
    for line in status.splitlines():
        key, _, value = line.partition(":")
        if key == "Name":
            told["name"] = text(value.strip())
        elif key == "Uid" and value.split()[:1] and value.split()[0].isdecimal():
            told["uid"] = int(value.split()[0])
            break
    return told


def _read_by_field(calls: Calls, handle: Any, facts: dict[str, Any]) -> None:
    """What only field values tell, and the links, whose number is one of them."""
    wanted = [
        ("memory_temperature_c", "MEMORY_TEMP", 82),
        ("recovery_action", "GET_GPU_RECOVERY_ACTION", 230),
        ("links", "NVLINK_LINK_COUNT", 91),
        ("crc_data", "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", 45),
    ]
    if "remap_failed" not in facts:
        wanted += [
            ("retired_pages_single_bit", "RETIRED_SBE", 29),
            ("retired_pages_double_bit", "RETIRED_DBE", 30),
        ]
    fields: list[Field] = [
        field_id(calls.nvml, name, default) or default for _, name, default in wanted
    ]
    values = read_fields(calls, handle, fields) or [None] * len(wanted)
    told = {key: value for (key, _, _), value in zip(wanted, values, strict=False)}
    count, crc_data = told.pop("links"), told.pop("crc_data")
    facts.update(told)
    if not facts.get("mig_enabled") and not calls.lost:
        facts["nvlinks"] = read_links(calls, handle, count, crc_data)
        facts["fabric"] = read_fabric(calls, handle)


def _inforom_valid(calls: Calls, handle: Any) -> bool | None:
    from healthcheck.probes._nvml_calls import Unanswered

    if calls.lost:
        return None
    name = "nvmlDeviceValidateInforom"
    answer = calls.ask(name, handle)
    if not isinstance(answer, Unanswered):
        return True
    if answer.code == 14:
        return False
    calls.keep(name, answer.code)
    return None
