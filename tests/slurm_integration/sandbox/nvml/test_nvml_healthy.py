"""The real pynvml reads a healthy machine out of the simulated library."""

import os
import subprocess
import sys

import msgspec
import pytest

from slurm_integration.sandbox.nvml.hgx import hgx_h100
from slurm_integration.sandbox.nvml.model import (
    SimulatedField,
    SimulatedNvml,
    SimulatedP2p,
    SimulatedProcess,
)
from slurm_integration.sandbox.nvml.mutate import with_gpu, with_link

# Each C name with its pynvml call, and the field of SimulatedGpu it reports.
SCALARS = {
    "UUID": "uuid",
    "Serial": "serial",
    "Name": "name",
    "MinorNumber": "minor_number",
    "VbiosVersion": "vbios_version",
    "InforomImageVersion": "inforom_image_version",
    "InforomConfigurationChecksum": "inforom_checksum",
    "BoardPartNumber": "board_part_number",
    "BoardId": "board_id",
    "ModuleId": "module_id",
    "MultiGpuBoard": "multi_gpu_board",
    "Brand": "brand",
    "Architecture": "architecture",
    "NumaNodeId": "numa_node",
    "PersistenceMode": "persistence_mode",
    "ComputeMode": "compute_mode",
    "AccountingMode": "accounting_mode",
    "DisplayMode": "display_mode",
    "VirtualizationMode": "virtualization_mode",
    "MarginTemperature": "margin_temperature_c",
    "CurrentClocksEventReasons": "clocks_event_reasons",
    "CurrentClocksThrottleReasons": "clocks_event_reasons",
    "SupportedClocksEventReasons": "supported_clocks_event_reasons",
    "SupportedClocksThrottleReasons": "supported_clocks_event_reasons",
    "PerformanceState": "performance_state",
    "PowerUsage": "power_usage_mw",
    "PowerManagementLimit": "power_limit_mw",
    "PowerManagementDefaultLimit": "power_default_limit_mw",
    "EnforcedPowerLimit": "power_enforced_limit_mw",
    "PowerSource": "power_source",
    "TotalEnergyConsumption": "total_energy_mj",
    "CurrPcieLinkGeneration": "pcie_generation",
    "CurrPcieLinkWidth": "pcie_width",
    "MaxPcieLinkGeneration": "pcie_max_generation",
    "MaxPcieLinkWidth": "pcie_max_width",
    "GpuMaxPcieLinkGeneration": "pcie_gpu_max_generation",
    "PcieReplayCounter": "pcie_replay_counter",
}
PAIRS = {
    "EccMode": ("ecc_mode", "ecc_mode_pending"),
    "MigMode": ("mig_mode", "mig_mode_pending"),
    "CudaComputeCapability": ("cuda_capability_major", "cuda_capability_minor"),
    "PowerManagementLimitConstraints": ("power_min_limit_mw", "power_max_limit_mw"),
    "RemappedRows": (
        "remapped_rows_corrected",
        "remapped_rows_uncorrected",
        "remapped_rows_pending",
        "remapped_rows_failure",
    ),
    "RepairStatus": ("repair_channel_pending", "repair_tpc_pending"),
}
SELECTED = {
    "Temperature": ["temperature_c"],
    "TemperatureV": ["temperature_c"],
    "TemperatureThreshold": [
        "threshold_shutdown_c",
        "threshold_slowdown_c",
        "threshold_memory_max_c",
        "threshold_gpu_max_c",
    ],
    "ClockInfo": ["graphics_clock_mhz", "sm_clock_mhz", "memory_clock_mhz", "video_clock_mhz"],
    "MaxClockInfo": [
        "max_graphics_clock_mhz",
        "max_sm_clock_mhz",
        "max_memory_clock_mhz",
        "max_video_clock_mhz",
    ],
    "ApplicationsClock": [
        "application_graphics_clock_mhz",
        "application_graphics_clock_mhz",
        "application_memory_clock_mhz",
    ],
}
READ_ALL = f"""
n.nvmlInit()
handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
get = lambda name: getattr(n, "nvmlDeviceGet" + name)
for h in handles:
    out({{
        **{{k: get(k)(h) for k in {list(SCALARS)!r}}},
        **{{k: list(get(k)(h)) for k in {list(PAIRS)!r}}},
        **{{k: [get(k)(h, i) for i in range(c)]
           for k, c in {[(k, len(v)) for k, v in SELECTED.items()]!r}}},
    }})
"""


def distinct(nvml):
    """Every number of every GPU different, so that no two calls can be confused."""
    gpus, value = [], 100
    for gpu in nvml.gpus:
        changes = {}
        for field in msgspec.structs.fields(gpu):
            old = getattr(gpu, field.name)
            if isinstance(old, int) and not isinstance(old, bool):
                value += 1
                changes[field.name] = value
        gpus.append(msgspec.structs.replace(gpu, **changes))
    return msgspec.structs.replace(nvml, gpus=tuple(gpus))


@pytest.mark.parametrize("machine", [hgx_h100(), distinct(hgx_h100())], ids=["h100", "distinct"])
def test_every_value_of_eight_gpus_comes_back_exactly(node, machine):
    read = node.install(machine).run(READ_ALL)
    assert len(read) == 8
    for gpu, seen in zip(machine.gpus, read, strict=True):
        assert {k: seen[k] for k in SCALARS} == {k: getattr(gpu, f) for k, f in SCALARS.items()}
        for table in (PAIRS, SELECTED):
            for call, fields in table.items():
                assert seen[call] == [getattr(gpu, f) for f in fields], call


def test_negative_numbers_keep_their_sign(node):
    machine = with_gpu(hgx_h100(), 0, margin_temperature_c=-3, numa_node=-1)
    read = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
out([n.nvmlDeviceGetMarginTemperature(h), n.nvmlDeviceGetNumaNodeId(h)])
"""
    assert node.install(machine).run(read) == [-3, -1]


def test_the_driver_and_its_handles(node):
    machine = hgx_h100()
    read = """
n.nvmlInit(); n.nvmlInit(); n.nvmlShutdown()
out([n.nvmlSystemGetDriverVersion(), n.nvmlSystemGetNVMLVersion(),
     n.nvmlSystemGetCudaDriverVersion(), n.nvmlSystemGetCudaDriverVersion_v2()])
def index(h):
    return n.nvmlDeviceGetIndex(h)
h = n.nvmlDeviceGetHandleByIndex(3)
pci = n.nvmlDeviceGetPciInfo(h)
out([index(h), index(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(h))),
     index(n.nvmlDeviceGetHandleBySerial(n.nvmlDeviceGetSerial(h))),
     index(n.nvmlDeviceGetHandleByPciBusId(pci.busId)),
     index(n.nvmlDeviceGetHandleByPciBusId("0000:61:00.0")),
     index(n.nvmlDeviceGetHandleByPciBusId("61:00.0"))])
out([pci.busId, pci.busIdLegacy, pci.domain, pci.bus, pci.device, pci.pciDeviceId,
     pci.pciSubSystemId])
out([code(n.nvmlDeviceGetHandleByIndex, 8), code(n.nvmlDeviceGetHandleByUUID, "GPU-none"),
     code(n.nvmlDeviceGetHandleByPciBusId, "0000:62:00.0"),
     code(n.nvmlDeviceGetHandleByPciBusId, "nonsense"),
     code(n.nvmlDeviceGetName, n.c_nvmlDevice_t()),
     code(n.nvmlDeviceGetName, ctypes.c_void_p(ctypes.addressof(h.contents) + 1))])
n.nvmlShutdown()
out([code(n.nvmlDeviceGetCount), code(n.nvmlShutdown)])
"""
    versions, indexes, pci, errors, closed = node.install(machine).run(read)
    assert versions == ["570.133.20", "12.570.133.20", 12080, 12080]
    assert indexes == [3] * 6
    assert pci[:2] == ["00000000:61:00.0", "0000:61:00.0"]
    assert pci[2:] == [0, 0x61, 0, 0x233010DE, 0x16C110DE]
    assert errors == [2, 6, 6, 6, 2, 2]
    assert closed == [1, 1]


def test_memory_ecc_and_processes(node):
    machine = with_gpu(
        hgx_h100(),
        1,
        memory_used_bytes=3 << 30,
        dram_volatile_uncorrected=1,
        sram_volatile_uncorrected_parity=2,
        sram_volatile_uncorrected_secded=4,
        sram_aggregate_corrected=8,
        sram_threshold_exceeded=True,
        processes=(
            SimulatedProcess(pid=4711, name="/usr/bin/python3 train.py", memory_bytes=3 << 30),
            SimulatedProcess(pid=4712, name="Xorg", graphics=True),
        ),
    )
    read = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(1)
m1, m2 = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2)
out([m1.total, m1.free, m1.used, m2.total, m2.reserved, m2.free, m2.used])
out([n.nvmlDeviceGetTotalEccErrors(h, 1, 0)]
    + [n.nvmlDeviceGetMemoryErrorCounter(h, 1, 0, where) for where in (2, 7)]
    + [code(n.nvmlDeviceGetMemoryErrorCounter, h, 1, 0, 0),
       code(n.nvmlDeviceGetMemoryErrorCounter, h, 1, 0, 8)])
s = n.c_nvmlEccSramErrorStatus_v1_t()
n.nvmlDeviceGetSramEccErrorStatus(h, ctypes.byref(s))
out([s.volatileUncParity, s.volatileUncSecDed, s.aggregateCor, s.bThresholdExceeded])
out([[p.pid, p.usedGpuMemory, n.nvmlSystemGetProcessName(p.pid)]
     for call in (n.nvmlDeviceGetComputeRunningProcesses, n.nvmlDeviceGetComputeRunningProcesses_v2,
                  n.nvmlDeviceGetGraphicsRunningProcesses) for p in call(h)])
out([n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(0)),
     code(n.nvmlSystemGetProcessName, 1), code(n.nvmlDeviceGetRetiredPages, h, 0)])
"""
    memory, ecc, sram, processes, other = node.install(machine).run(read)
    total, reserved, used = 85_520_809_984, 551_550_976, 3 << 30
    free = total - reserved - used
    assert memory == [total, free, reserved + used, total, reserved, free, used]
    assert ecc == [7, 1, 6, 3, 2]
    assert sram == [2, 4, 8, 1]
    trainer = [4711, 3 << 30, "/usr/bin/python3 train.py"]
    assert processes == [trainer, trainer, [4712, 0, "Xorg"]]
    assert other == [[], 6, 3]


def test_retired_pages_of_an_older_gpu(node):
    machine = with_gpu(
        hgx_h100(),
        0,
        retired_pages_single_bit=3,
        retired_pages_double_bit=0,
        retired_pages_pending=True,
    )
    read = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
out([len(set(n.nvmlDeviceGetRetiredPages(h, 0))), n.nvmlDeviceGetRetiredPages(h, 1),
     len(n.nvmlDeviceGetRetiredPages_v2(h, 0)), n.nvmlDeviceGetRetiredPagesPendingStatus(h)])
"""
    assert node.install(machine).run(read) == [3, [], 3, 1]


def test_nvlinks_fabric_and_p2p(node):
    machine = with_gpu(
        with_link(hgx_h100(), 2, 5, active=False, speed_mbps=0, crc_data_errors=9, error=None),
        2,
        fabric_state=3,
        fabric_clique_id=7,
        fabric_health_mask=0x4002,
        fabric_health_summary=2,
        fabric_cluster_uuid="01020304-0506-0708-090a-0b0c0d0e0f10",
    )
    machine = msgspec.structs.replace(machine, p2p=(SimulatedP2p(gpus=(2, 6)),))
    read = """
n.nvmlInit()
h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
g = h[2]
out([n.nvmlDeviceGetNvLinkState(g, link) for link in range(18)])
out([code(n.nvmlDeviceGetNvLinkState, g, 18), n.nvmlDeviceGetNvLinkVersion(g, 0),
     n.nvmlDeviceGetNvLinkCapability(g, 0, 0), n.nvmlDeviceGetNvLinkCapability(g, 0, 4),
     n.nvmlDeviceGetNvLinkRemoteDeviceType(g, 0), n.nvmlDeviceGetNvLinkRemotePciInfo(g, 17).busId,
     [n.nvmlDeviceGetNvLinkErrorCounter(g, 5, c) for c in range(4)],
     code(n.nvmlDeviceGetNvLinkErrorCounter, g, 5, 4)])
old, v2, v3 = n.c_nvmlGpuFabricInfo_t(), n.c_nvmlGpuFabricInfo_v2_t(), n.c_nvmlGpuFabricInfo_v3_t()
n.nvmlDeviceGetGpuFabricInfo(g, ctypes.byref(old))
n.nvmlDeviceGetGpuFabricInfoV(g, ctypes.byref(v2))
n.nvmlDeviceGetGpuFabricInfoV(g, ctypes.byref(v3))
out([[bytes(i.clusterUuid).hex(), i.status, i.cliqueId, i.state] for i in (old, v2, v3)])
out([v2.healthMask, v3.healthMask, v3.healthSummary, v2.version, v3.version])
out([[i, j] for i in range(8) for j in range(8) if i != j and n.nvmlDeviceGetP2PStatus(
    h[i], h[j], n.NVML_P2P_CAPS_INDEX_NVLINK)])
out([n.nvmlDeviceGetP2PStatus(h[2], h[6], 1), code(n.nvmlDeviceGetP2PStatus, h[2], h[2], 2)])
"""
    states, link, fabric, health, broken, p2p = node.install(machine).run(read)
    assert states == [1] * 5 + [0] + [1] * 12
    assert link == [2, 6, 1, 0, 2, "00000000:0A:00.0", [0, 0, 0, 9], 3]
    assert fabric == [["0102030405060708090a0b0c0d0e0f10", 0, 7, 3]] * 3
    assert health == [0x4002, 0x4002, 2, 0x02000024, 0x03000028]
    assert broken == [[2, 6], [6, 2]]
    assert p2p == [0, 2]


def test_each_field_has_its_own_return_code(node):
    machine = with_gpu(
        with_link(hgx_h100(), 0, 3, speed_mbps=20000, recovery_failed_events=5, replay_errors=2),
        0,
        recovery_action=4,
        fields=(
            SimulatedField(field_id=82, return_code=15),
            SimulatedField(field_id=271, value=-7, value_type=4),
        ),
    )
    read = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
ids = [230, (164, 0), (164, 3), (164, 18), (214, 3), (214, 0), 82, 271, 9999, 87, 90, 91, 52, 49]
out([[f.nvmlReturn, f.valueType, f.value.sllVal] for f in n.nvmlDeviceGetFieldValues(h, ids)])
"""
    assert node.install(machine).run(read) == [
        [0, 1, 4],
        [0, 1, 26562],
        [0, 1, 20000],
        [2, 0, 0],
        [0, 3, 5],
        [3, 0, 0],
        [15, 0, 0],
        [0, 4, -7],
        [3, 0, 0],
        [0, 3, 20000],
        [0, 3, 26562],
        [0, 1, 18],
        [0, 3, 2],
        [0, 3, 2],
    ]


def test_what_the_state_leaves_out_is_not_supported(node):
    gpu = hgx_h100().gpus[0]
    optional = {
        field.name: None
        for field in msgspec.structs.fields(gpu)
        if field.default is not msgspec.NODEFAULT and type(None) in _union(field.type)
    }
    bare = msgspec.structs.replace(gpu, nvlinks=(), **optional)
    read = f"""
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
calls = {[*SCALARS, *PAIRS]!r}
out({{k: code(getattr(n, "nvmlDeviceGet" + k), h) for k in calls}})
s = n.c_nvmlGpuFabricInfo_v3_t()
out([code(n.nvmlDeviceGetNvLinkState, h, 0), code(n.nvmlDeviceGetTotalEccErrors, h, 1, 0),
     code(n.nvmlDeviceGetMemoryInfo, h), code(n.nvmlDeviceGetGpuFabricInfoV, h, ctypes.byref(s)),
     n.nvmlDeviceGetFieldValues(h, [230])[0].nvmlReturn])
"""
    scalars, others = node.install(SimulatedNvml(gpus=(bare,))).run(read)
    given = {"UUID", "Serial", "Name", "MinorNumber", "VbiosVersion", "InforomImageVersion"}
    given.add("BoardPartNumber")
    assert {call for call, rc in scalars.items() if rc == 0} == given
    assert {rc for call, rc in scalars.items() if call not in given} == {3}
    assert others == [3] * 5


def _union(annotation):
    return getattr(annotation, "__args__", ())


def test_wrong_version_words_are_refused(node):
    read = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
lib = n.nvmlLib
for name, struct in (("MarginTemperature", n.c_nvmlMarginTemperature_v1_t),
                     ("TemperatureV", n.c_nvmlTemperature_v1_t),
                     ("RepairStatus", n.c_nvmlRepairStatus_t),
                     ("MemoryInfo_v2", n.c_nvmlMemory_v2_t),
                     ("SramEccErrorStatus", n.c_nvmlEccSramErrorStatus_v1_t),
                     ("GpuFabricInfoV", n.c_nvmlGpuFabricInfo_v2_t),
                     ("PciInfoExt", n.nvmlPciInfoExt_v1_t)):
    right = {"MemoryInfo_v2": 2, "GpuFabricInfoV": 2}.get(name, 1)
    call, got = getattr(lib, "nvmlDeviceGet" + name), []
    for word in (ctypes.sizeof(struct) | right << 24, ctypes.sizeof(struct) | 9 << 24, 0):
        value = struct()
        value.version = word
        got.append(call(h, ctypes.byref(value)))
    out([name, got])
"""
    for name, codes in node.install(hgx_h100()).run(read):
        assert codes == [0, 25, 25], name


def test_short_buffers_are_refused_and_not_overrun(node):
    read = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
size = len(n.nvmlDeviceGetName(h)) + 1
text = ctypes.create_string_buffer(b"#" * 64, 64)
out([n.nvmlLib.nvmlDeviceGetName(h, text, size - 1), text.raw.decode(),
     n.nvmlLib.nvmlDeviceGetName(h, text, size), text.value.decode(), text.raw[size:].decode(),
     n.nvmlLib.nvmlDeviceGetName(h, None, 64), n.nvmlLib.nvmlDeviceGetPowerUsage(h, None)])
"""
    short, untouched, long, name, rest, no_text, no_number = node.install(hgx_h100()).run(read)
    assert (short, untouched, long) == (7, "#" * 64, 0)
    assert name == hgx_h100().gpus[0].name
    assert rest == "#" * (64 - len(name) - 1)
    assert (no_text, no_number) == (2, 2)


def test_struct_sizes_agree_with_pynvml(node):
    sizes = node.install(hgx_h100()).run("""
names = ("nvmlPciInfo_t", "nvmlPciInfo_v2_t", "nvmlPciInfoExt_v1_t", "c_nvmlFieldValue_t",
         "c_nvmlEccSramErrorStatus_v1_t", "c_nvmlGpuFabricInfo_t", "c_nvmlGpuFabricInfo_v2_t",
         "c_nvmlGpuFabricInfo_v3_t", "c_nvmlMemory_t", "c_nvmlMemory_v2_t",
         "c_nvmlProcessInfo_v3_t", "c_nvmlTemperature_v1_t", "c_nvmlMarginTemperature_v1_t",
         "c_nvmlRepairStatus_t", "c_nvmlRowRemapperHistogramValues")
out([ctypes.sizeof(getattr(n, name)) for name in names])
""")
    # The C side asserts these same numbers at compile time (nvml_abi.h).
    assert sizes == [68, 52, 64, 40, 104, 28, 36, 40, 24, 40, 24, 12, 8, 12, 20]


def test_pynvml_finds_it_by_library_path_alone(node):
    node.install(hgx_h100())
    done = subprocess.run(
        [sys.executable, "-c", "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"],
        env={**os.environ, "LD_LIBRARY_PATH": str(node.folder)},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.stdout.strip(), done.stderr) == ("8", "")


def test_only_nvml_names_are_exported(node):
    node.install(hgx_h100())
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(node.library)],
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line.split()[-1] for line in listed.stdout.splitlines()]
    assert len(names) > 90
    assert [name for name in names if not name.startswith("nvml")] == []
