"""Facts about GPUs, as NVML tells them. None means: not measured, or not supported here."""

import msgspec


class NvmlError(msgspec.Struct, frozen=True):
    """An NVML call that answered with an error: its function, return code and name."""

    call: str
    code: int
    name: str


class NvLink(msgspec.Struct, frozen=True):
    """One NVLink of one GPU. Speed in MB/s; counters since the driver's start."""

    index: int
    active: bool | None = None
    speed_mb_s: int | None = None
    replay_errors: int | None = None
    recovery_errors: int | None = None
    crc_flit_errors: int | None = None
    crc_data_errors: int | None = None
    recovery_failed_events: int | None = None
    """NVLink 5 and later, in place of the data-link counters."""
    integrity_errors: int | None = None
    """NVLink 5 and later: local link integrity errors."""


class Fabric(msgspec.Struct, frozen=True):
    """NVSwitch fabric registration (nvmlDeviceGetGpuFabricInfoV).

    `state` 0 not supported, 1 not started, 2 in progress, 3 completed; `status` is an nvmlReturn
    and only means something once completed. `health_mask` and `summary` are raw NVML words
    (summary: 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity).
    """

    state: int
    status: int
    clique_id: int | None = None
    cluster_uuid: str | None = None
    health_mask: int | None = None
    summary: int | None = None


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that holds memory on a GPU. Memory in bytes; uid and name where readable."""

    pid: int
    memory_bytes: int | None = None
    uid: int | None = None
    name: str | None = None
    kind: str = "compute"


class Gpu(msgspec.Struct, frozen=True):
    """One GPU as NVML sees it.

    `index` is NVML's own and changes across reboots; `bus_id` (`0000:b3:00.0`, lower case,
    as in sysfs) is the subject of every finding. A GPU whose handle could not be had
    carries `handle_error`, an empty bus_id where even that is unknown, and nothing else.
    `errors` lists every later call that answered with anything but success or "not supported".
    """

    index: int
    bus_id: str
    handle_error: NvmlError | None = None
    errors: tuple[NvmlError, ...] = ()

    uuid: str | None = None
    serial: str | None = None
    name: str | None = None
    minor_number: int | None = None
    vbios: str | None = None
    inforom_image: str | None = None
    inforom_valid: bool | None = None

    persistence_mode: bool | None = None
    ecc_enabled: bool | None = None
    ecc_pending: bool | None = None
    mig_enabled: bool | None = None
    mig_pending: bool | None = None

    ecc_volatile_corrected: int | None = None
    ecc_volatile_uncorrected: int | None = None
    ecc_aggregate_corrected: int | None = None
    ecc_aggregate_uncorrected: int | None = None
    sram_threshold_exceeded: bool | None = None
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pages_single_bit: int | None = None
    retired_pages_double_bit: int | None = None
    retired_pages_pending: bool | None = None
    repair_pending: bool | None = None
    recovery_action: int | None = None
    """NVML field 230: 0 none, 1 reset GPU, 2 reboot node, 3 drain P2P, 4 drain and reset,
    5 recover IMEX domain, 6 reset bus, 7 reboot/FM restart (see hardware reference)."""

    temperature_c: int | None = None
    temperature_margin_c: int | None = None
    """Degrees left before the GPU slows itself down."""
    temperature_slowdown_c: int | None = None
    memory_temperature_c: int | None = None
    clock_event_reasons: tuple[int, ...] = ()
    """Bit masks, one a sample. More than one is taken only when the first looks bad."""
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    utilization_percent: int | None = None

    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    power_limit_enforced_w: float | None = None
    power_source: int | None = None
    """0 AC, 1 battery, 2 undersized (nvmlPowerSource_t)."""

    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None

    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    nvlinks: tuple[NvLink, ...] | None = None
    fabric: Fabric | None = None


class P2pPair(msgspec.Struct, frozen=True):
    """NVLink peer-to-peer status of one pair of GPUs (nvmlDeviceGetP2PStatus; 0 is OK)."""

    first: str
    second: str
    status: int


class Driver(msgspec.Struct, frozen=True):
    """The NVIDIA driver and NVML as a whole.

    `library_missing`: there is no libnvidia-ml.so.1 here. `init_error`: NVML is there and will
    not start. `gpu_count` is NVML's own count.
    """

    library_missing: bool = False
    init_error: NvmlError | None = None
    version: str | None = None
    nvml_version: str | None = None
    cuda_version: int | None = None
    gpu_count: int | None = None
    calls: int = 0
    seconds: float = 0.0
    """How long the reading of everything took; slow answers are a sign of a sick driver."""
