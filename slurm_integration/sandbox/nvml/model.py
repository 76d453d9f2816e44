"""What a simulated NVML reports: frozen structs, JSON both ways with msgspec.

A number that is None makes the calls that report it answer NOT_SUPPORTED, as
on hardware or drivers that lack it. The scalar fields of `SimulatedGpu` and
`SimulatedNvLink` bear the names of the library's keys (state.h): a new key is
one row there and one field here. Defaults are an idle, healthy H100 SXM5 80 GB.

Change a machine with `msgspec.structs.replace`, or with the helpers of
`mutate`.
"""

from typing import Literal

import msgspec

Effect = Literal["continue", "return", "missing", "hang", "hang-deaf", "abort"]
P2pCapability = Literal["read", "write", "nvlink", "atomics", "pci"]


class SimulatedNvLink(msgspec.Struct, frozen=True, kw_only=True):
    """One NVLink of a GPU; its number is its place in `SimulatedGpu.nvlinks`."""

    error: int | None = None
    """An nvmlReturn that every call and field about this link answers."""
    active: bool = True
    version: int | None = 6
    """NVML_NVLINK_VERSION_…: 5 is NVLink 3.1, 6 is NVLink 4.0, 7 is NVLink 5.0."""
    speed_mbps: int | None = 26562
    """MB/s, as field 164 gives it."""
    capabilities: int | None = 0b101111
    """One bit for each nvmlNvLinkCapability_t."""
    remote_device_type: int | None = 2
    """0 a GPU, 2 an NVSwitch, 255 unknown."""
    remote_bus_id: str = ""
    remote_pci_device_id: int | None = 0x22A310DE
    replay_errors: int | None = 0
    recovery_errors: int | None = 0
    crc_flit_errors: int | None = 0
    crc_data_errors: int | None = 0
    ecc_data_errors: int | None = None
    # NVLink 5 (fields 206-222): not supported on Hopper.
    malformed_packet_errors: int | None = None
    buffer_overrun_errors: int | None = None
    receive_errors: int | None = None
    receive_remote_errors: int | None = None
    receive_general_errors: int | None = None
    local_integrity_errors: int | None = None
    transmit_discards: int | None = None
    recovery_successful_events: int | None = None
    recovery_failed_events: int | None = None
    recovery_events: int | None = None
    raw_ber_lane0: int | None = None
    raw_ber_lane1: int | None = None
    raw_ber: int | None = None
    effective_errors: int | None = None
    effective_ber: int | None = None
    symbol_errors: int | None = None
    symbol_ber: int | None = None


class SimulatedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds a context on a GPU."""

    pid: int
    name: str = ""
    memory_bytes: int = 0
    graphics: bool = False


class SimulatedField(msgspec.Struct, frozen=True, kw_only=True):
    """What nvmlDeviceGetFieldValues answers for one field, over what it would derive."""

    field_id: int
    scope_id: int = 0
    return_code: int = 0
    """The field's own nvmlReturn; when it is not 0 the value is not sent."""
    value: int = 0
    value_type: int = 3
    """NVML_VALUE_TYPE_…: 1 unsigned int, 3 unsigned long long, 4 signed long long, 5 int."""


class SimulatedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as NVML shows it. Only what differs between GPUs has no default."""

    bus_id: str
    """domain:bus:device.function in hexadecimal, such as 0000:1b:00.0."""
    uuid: str
    """GPU-… The identity: a caller's handle follows it when the order changes."""
    serial: str
    minor_number: int | None
    name: str = "NVIDIA H100 80GB HBM3"
    vbios_version: str = "96.00.89.00.01"
    inforom_image_version: str = "G520.0200.00.05"
    board_part_number: str = "692-2G520-0200-000"
    gsp_firmware_version: str = "570.133.20"
    pci_device_id: int = 0x233010DE
    """Device id in the upper, vendor id in the lower 16 bits."""
    pci_subsystem_id: int = 0x16C110DE
    board_id: int | None = None
    module_id: int | None = None
    brand: int | None = 14
    architecture: int | None = 9
    cuda_capability_major: int | None = 9
    cuda_capability_minor: int | None = 0
    numa_node: int | None = 0
    multi_gpu_board: int | None = 0
    inforom_checksum: int | None = 0x2F1A9C44
    inforom_valid: bool | None = True
    """False: nvmlDeviceValidateInforom answers CORRUPTED_INFOROM."""

    persistence_mode: bool | None = True
    ecc_mode: bool | None = True
    """False or None: the ECC counters answer NOT_SUPPORTED."""
    ecc_mode_pending: bool | None = True
    mig_mode: bool | None = False
    mig_mode_pending: bool | None = False
    compute_mode: int | None = 0
    accounting_mode: bool | None = False
    display_mode: bool | None = False
    virtualization_mode: int | None = 0

    # Error counters. Totals are DRAM plus SRAM; uncorrected SRAM is parity plus SEC-DED.
    dram_volatile_corrected: int | None = 0
    dram_volatile_uncorrected: int | None = 0
    dram_aggregate_corrected: int | None = 0
    dram_aggregate_uncorrected: int | None = 0
    sram_volatile_corrected: int | None = 0
    sram_volatile_uncorrected_parity: int | None = 0
    sram_volatile_uncorrected_secded: int | None = 0
    sram_aggregate_corrected: int | None = 0
    sram_aggregate_uncorrected_parity: int | None = 0
    sram_aggregate_uncorrected_secded: int | None = 0
    sram_bucket_l2: int | None = 0
    sram_bucket_sm: int | None = 0
    sram_bucket_pcie: int | None = 0
    sram_bucket_mcu: int | None = 0
    sram_bucket_other: int | None = 0
    sram_threshold_exceeded: bool | None = False
    """None: nvmlDeviceGetSramEccErrorStatus is not supported (drivers before 550)."""
    remapped_rows_corrected: int | None = 0
    remapped_rows_uncorrected: int | None = 0
    remapped_rows_pending: bool | None = False
    remapped_rows_failure: bool | None = False
    row_remapper_max: int | None = 2560
    """Memory banks with every spare row left; …_none: banks with none."""
    row_remapper_high: int | None = 0
    row_remapper_partial: int | None = 0
    row_remapper_low: int | None = 0
    row_remapper_none: int | None = 0
    retired_pages_single_bit: int | None = None
    """Numbers of pages; only GPUs before Ampere retire pages."""
    retired_pages_double_bit: int | None = None
    retired_pages_pending: bool | None = None
    repair_channel_pending: bool | None = False
    repair_tpc_pending: bool | None = False
    recovery_action: int | None = 0
    """Field 230, NVML_GPU_RECOVERY_ACTION_…; None on drivers before 570."""

    temperature_c: int | None = 32
    memory_temperature_c: int | None = 42
    margin_temperature_c: int | None = 55
    """Degrees left before the GPU slows down; may be negative."""
    threshold_shutdown_c: int | None = 92
    threshold_slowdown_c: int | None = 89
    threshold_memory_max_c: int | None = 95
    threshold_gpu_max_c: int | None = 87
    clocks_event_reasons: int | None = 0x1
    supported_clocks_event_reasons: int | None = 0x1FF
    graphics_clock_mhz: int | None = 345
    sm_clock_mhz: int | None = 345
    memory_clock_mhz: int | None = 2619
    video_clock_mhz: int | None = 765
    max_graphics_clock_mhz: int | None = 1980
    max_sm_clock_mhz: int | None = 1980
    max_memory_clock_mhz: int | None = 2619
    max_video_clock_mhz: int | None = 1545
    application_graphics_clock_mhz: int | None = 1980
    application_memory_clock_mhz: int | None = 2619
    performance_state: int | None = 0

    # Milliwatts and millijoules.
    power_usage_mw: int | None = 70_000
    power_limit_mw: int | None = 700_000
    power_default_limit_mw: int | None = 700_000
    power_enforced_limit_mw: int | None = 700_000
    power_min_limit_mw: int | None = 200_000
    power_max_limit_mw: int | None = 700_000
    power_source: int | None = 0
    """0 mains, 1 battery, 2 undersized."""
    total_energy_mj: int | None = 1_000_000_000

    pcie_generation: int | None = 5
    pcie_width: int | None = 16
    pcie_max_generation: int | None = 5
    """What device and slot can do together; `pcie_gpu_max_generation` is the device alone."""
    pcie_max_width: int | None = 16
    pcie_gpu_max_generation: int | None = 5
    pcie_replay_counter: int | None = 0

    utilization_gpu: int | None = 0
    utilization_memory: int | None = 0
    memory_total_bytes: int | None = 85_520_809_984
    memory_reserved_bytes: int | None = 551_550_976
    memory_used_bytes: int | None = 0

    fabric_state: int | None = 3
    """0 not supported, 1 not started, 2 in progress, 3 completed; None: no such call."""
    fabric_status: int | None = 0
    """The nvmlReturn of the registration, valid once completed."""
    fabric_clique_id: int | None = 0
    fabric_health_mask: int | None = 0
    fabric_health_summary: int | None = 0
    """Version 3 only: 1 healthy, 2 unhealthy, 3 limited capacity."""
    fabric_cluster_uuid: str = ""
    """32 hexadecimal digits, dashes allowed; empty reads as zeros."""

    nvlinks: tuple[SimulatedNvLink, ...] = ()
    """Empty: every NVLink call answers NOT_SUPPORTED; past the end: INVALID_ARGUMENT."""
    processes: tuple[SimulatedProcess, ...] = ()
    fields: tuple[SimulatedField, ...] = ()


class SimulatedP2p(msgspec.Struct, frozen=True, kw_only=True):
    """One pair's answer of nvmlDeviceGetP2PStatus, both ways; the others are OK (0)."""

    gpus: tuple[int, int]
    """Two different places in `SimulatedNvml.gpus`."""
    capability: P2pCapability = "nvlink"
    status: int = 5
    """NVML_P2P_STATUS_…: 0 OK, 5 not supported."""


class SimulatedFault(msgspec.Struct, frozen=True, kw_only=True):
    """What a call does instead of answering. The first fault that matches wins.

    `after` and `times` count the calls of one process since it last read the
    state: `times=2` fails twice and then works.
    """

    symbol: str
    """A glob over NVML's C names: nvmlDeviceGetTemperature, nvmlInit*, *. A name
    also stands for its _v2, _v3 … forms. nvmlErrorString and nvmlShutdown never fail."""
    gpu: int | None = None
    """A place in `SimulatedNvml.gpus`; None is every GPU and calls about none. A
    handle lookup concerns the GPU it would have found, P2P both its GPUs."""
    effect: Effect = "return"
    """return: answer `return_code`. missing: FUNCTION_NOT_FOUND. continue: answer
    truthfully, after `delay_ms`. hang: until this fault or the state file is
    removed. hang-deaf: the same and only SIGKILL ends it. abort: SIGABRT."""
    return_code: int = 0
    delay_ms: int = 0
    """Slept before the effect."""
    after: int = 0
    """Calls that still work before the fault begins."""
    times: int = 0
    """Calls it hits after that; 0 is for ever."""


class SimulatedNvml(msgspec.Struct, frozen=True, kw_only=True):
    """A driver and the GPUs it lists, in NVML's order."""

    driver_version: str = "570.133.20"
    nvml_version: str = "12.570.133.20"
    cuda_version: int | None = 12080
    """1000 times the major plus 10 times the minor version."""
    gpus: tuple[SimulatedGpu, ...] = ()
    p2p: tuple[SimulatedP2p, ...] = ()
    faults: tuple[SimulatedFault, ...] = ()
