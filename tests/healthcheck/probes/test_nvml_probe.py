"""The nvml probe in its forked child, with the real pynvml, on a simulated libnvidia-ml.so.1."""

import faulthandler
import os
import time

import msgspec
import pytest

from healthcheck.attention import Attention
from healthcheck.host import NVML, NVML_FOLDERS, host_at
from healthcheck.model import Driver, Gpu, P2pPair
from healthcheck.probes import nvml as probe
from healthcheck.reading import HUNG_AFTER_S, Plan, collect, launch
from slurm_integration.sandbox.nvml.build import find_compiler, install_library
from slurm_integration.sandbox.nvml.hgx import hgx_h100
from slurm_integration.sandbox.nvml.model import SimulatedFault, SimulatedP2p, SimulatedProcess
from slurm_integration.sandbox.nvml.mutate import (
    behaving,
    lost,
    returning,
    with_fault,
    with_gpu,
    with_link,
    without_gpu,
)

try:
    find_compiler()
except Exception as error:  # pragma: no cover
    pytest.skip(f"no C compiler: {error}", allow_module_level=True)

GPU0, GPU3 = "0000:1b:00.0", "0000:61:00.0"
HEALTHY = hgx_h100()


class Facts(msgspec.Struct):
    driver: Driver
    gpus: tuple[Gpu, ...]
    p2p: tuple[P2pPair, ...]


class Node:
    def __init__(self, cache, root):
        self.cache, self.root = cache, root

    def answer(self, nvml=None, stage="prolog", wait_s=30.0):
        """What the child sent, as the runner gets it."""
        if nvml is not None:
            install_library(self.cache, self.root / NVML_FOLDERS[0], nvml)
        reading = launch("nvml", host_at(str(self.root)), Plan(stage))
        return collect([reading], time.monotonic() + wait_s, Attention())["nvml"]

    def facts(self, nvml=None, **options):
        answer = self.answer(nvml, **options)
        assert "facts" in answer, answer
        return msgspec.convert(answer["facts"], Facts)


@pytest.fixture(scope="session")
def nvml_library_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("nvml-library")


@pytest.fixture
def node(nvml_library_cache, tmp_path):
    return Node(nvml_library_cache, tmp_path)


def test_a_healthy_machine_is_read_in_full(node):
    facts = node.facts(HEALTHY)
    assert (facts.driver.version, facts.driver.gpu_count) == ("570.133.20", 8)
    assert facts.driver.cuda_version == 12080
    assert 0 < facts.driver.calls < 600
    gpu = facts.gpus[0]
    assert (gpu.bus_id, gpu.name) == (GPU0, "NVIDIA H100 80GB HBM3")
    assert gpu.uuid.startswith("GPU-") and gpu.minor_number == 0
    assert (gpu.persistence_mode, gpu.ecc_enabled, gpu.mig_enabled) == (True, True, False)
    assert (gpu.power_limit_w, gpu.power_limit_enforced_w) == (700.0, 700.0)
    assert (gpu.pcie_generation_max, gpu.pcie_width) == (5, 16)
    assert (gpu.temperature_c, gpu.memory_temperature_c, gpu.recovery_action) == (32, 42, 0)
    assert gpu.processes == () and gpu.memory_total_bytes == 85520809984
    assert len(gpu.nvlinks) == 18
    assert all(link.active and link.speed_mb_s == 26562 for link in gpu.nvlinks)
    assert (gpu.fabric.state, gpu.fabric.status) == (3, 0)
    assert [gpu.errors for gpu in facts.gpus] == [()] * 8
    assert len(facts.p2p) == 28 and all(pair.status == 0 for pair in facts.p2p)


def test_every_value_comes_from_its_own_source(node):
    changes = {
        "dram_volatile_corrected": 11,
        "dram_volatile_uncorrected": 12,
        "dram_aggregate_corrected": 13,
        "dram_aggregate_uncorrected": 14,
        "remapped_rows_corrected": 5,
        "remapped_rows_uncorrected": 6,
        "remapped_rows_pending": 1,
        "recovery_action": 4,
        "pcie_replay_counter": 77,
        "power_enforced_limit_mw": 350500,
        "power_source": 2,
        "pcie_width": 8,
        "sm_clock_mhz": 1755,
        "utilization_gpu": 97,
        "fabric_state": 3,
        "fabric_clique_id": 9,
        "fabric_health_mask": 0x5,
        "fabric_health_summary": 2,
        "fabric_cluster_uuid": "00112233445566778899aabbccddeeff",
        "margin_temperature_c": -2,
        "repair_tpc_pending": 1,
    }
    gpu = node.facts(with_gpu(HEALTHY, 3, **changes)).gpus[3]
    assert gpu.bus_id == GPU3
    assert (gpu.ecc_volatile_corrected, gpu.ecc_volatile_uncorrected) == (11, 12)
    assert (gpu.ecc_aggregate_corrected, gpu.ecc_aggregate_uncorrected) == (13, 14)
    assert (gpu.remapped_correctable, gpu.remapped_uncorrectable) == (5, 6)
    assert (gpu.remap_pending, gpu.remap_failed, gpu.repair_pending) == (True, False, True)
    assert (gpu.recovery_action, gpu.pcie_replays, gpu.power_source) == (4, 77, 2)
    assert (gpu.power_limit_enforced_w, gpu.pcie_width) == (350.5, 8)
    assert (gpu.sm_clock_mhz, gpu.utilization_percent, gpu.temperature_margin_c) == (1755, 97, -2)
    assert gpu.fabric.cluster_uuid == "00112233445566778899aabbccddeeff"
    assert (gpu.fabric.clique_id, gpu.fabric.health_mask, gpu.fabric.summary) == (9, 5, 2)


def test_nvlink_counters_and_states_are_read_link_by_link(node):
    sick = with_link(HEALTHY, 0, 4, active=False, speed_mbps=0)
    sick = with_link(sick, 0, 7, replay_errors=21, recovery_errors=22, crc_flit_errors=23)
    sick = with_link(sick, 0, 17, crc_data_errors=24, speed_mbps=13281)
    links = node.facts(sick).gpus[0].nvlinks
    assert [link.index for link in links if not link.active] == [4]
    found = links[7]
    assert (found.replay_errors, found.recovery_errors, found.crc_flit_errors) == (21, 22, 23)
    assert (links[17].crc_data_errors, links[17].speed_mb_s) == (24, 13281)
    assert links[0].crc_data_errors == 0


def test_blackwell_links_report_their_own_counters(node):
    links = tuple(
        msgspec.structs.replace(
            link,
            replay_errors=None,
            recovery_errors=None,
            crc_flit_errors=None,
            crc_data_errors=None,
            speed_mbps=53125,
            recovery_failed_events=index,
            local_integrity_errors=2 * index,
        )
        for index, link in enumerate(HEALTHY.gpus[0].nvlinks)
    )
    found = node.facts(with_gpu(HEALTHY, 0, nvlinks=links)).gpus[0].nvlinks[3]
    assert (found.recovery_failed_events, found.integrity_errors) == (3, 6)
    assert (found.replay_errors, found.active) == (None, True)


def test_a_driver_without_the_state_fields_is_asked_link_by_link(node):
    old = with_fault(HEALTHY, returning("nvmlDeviceGetFieldValues", 13))
    facts = node.facts(old)
    assert [len(gpu.nvlinks) for gpu in facts.gpus] == [18] * 8
    assert facts.gpus[0].nvlinks[0].replay_errors == 0
    assert facts.gpus[0].errors == ()


def test_a_card_without_nvlink_has_none_and_no_pairs(node):
    cards = HEALTHY
    for index in range(8):
        cards = with_gpu(cards, index, nvlinks=(), fabric_state=None)
    facts = node.facts(cards)
    assert all(gpu.nvlinks is None and gpu.fabric is None for gpu in facts.gpus)
    assert facts.p2p == () and all(gpu.errors == () for gpu in facts.gpus)


def test_mig_is_left_alone(node):
    facts = node.facts(with_gpu(HEALTHY, 2, mig_mode=1, mig_mode_pending=1))
    assert facts.gpus[2].mig_enabled and facts.gpus[2].nvlinks is None
    assert facts.gpus[2].remap_failed is None and facts.gpus[2].errors == ()
    assert len(facts.p2p) == 21


def test_a_lost_gpu_does_not_stop_the_others(node):
    facts = node.facts(with_fault(HEALTHY, lost(3)))
    assert len(facts.gpus) == 8 and facts.driver.gpu_count == 8
    gone = facts.gpus[3]
    assert gone.handle_error.call == "nvmlDeviceGetHandleByIndex"
    assert (gone.handle_error.code, gone.handle_error.name) == (15, "NVML_ERROR_GPU_IS_LOST")
    assert all(gpu.uuid and len(gpu.nvlinks) == 18 for gpu in facts.gpus if gpu is not gone)
    assert len(facts.p2p) == 21


def test_a_gpu_lost_half_way_is_asked_no_more(node):
    fault = SimulatedFault(symbol="nvmlDeviceGetTemperature", gpu=3, return_code=15)
    facts = node.facts(with_fault(HEALTHY, fault))
    gone = facts.gpus[3]
    assert (gone.bus_id, gone.handle_error) == (GPU3, None)
    assert [(e.call, e.code) for e in gone.errors] == [("nvmlDeviceGetTemperature", 15)]
    assert gone.uuid and gone.power_w is None and gone.nvlinks is None
    assert GPU3 not in {bus_id for pair in facts.p2p for bus_id in (pair.first, pair.second)}


def test_a_gpu_the_driver_does_not_list_is_simply_not_there(node):
    facts = node.facts(without_gpu(HEALTHY, 3))
    assert facts.driver.gpu_count == 7
    assert GPU3 not in {gpu.bus_id for gpu in facts.gpus}


@pytest.mark.parametrize("code", [3, 13, 25])
def test_what_is_not_supported_is_no_error(node, code):
    fault = returning("nvmlDeviceGetMarginTemperature", code)
    gpu = node.facts(with_fault(HEALTHY, fault)).gpus[0]
    assert gpu.temperature_margin_c is None and gpu.errors == ()


def test_a_call_that_fails_is_told_with_its_code(node):
    faults = (returning("nvmlDeviceGetPowerUsage", 8, 1), returning("nvmlDeviceGetSerial", 999, 1))
    gpu = node.facts(with_fault(HEALTHY, *faults)).gpus[1]
    assert {(e.call, e.code, e.name) for e in gpu.errors} == {
        ("nvmlDeviceGetPowerUsage", 8, "NVML_ERROR_INSUFFICIENT_POWER"),
        ("nvmlDeviceGetSerial", 999, "NVML_ERROR_UNKNOWN"),
    }
    assert gpu.power_w is None and gpu.temperature_c == 32


def test_a_link_that_answers_with_an_error_is_neither_up_nor_down(node):
    gpu = node.facts(with_link(HEALTHY, 0, 5, error=999)).gpus[0]
    assert gpu.nvlinks[5].active is None and gpu.nvlinks[6].active is True
    assert [(e.call, e.code) for e in gpu.errors] == [("nvmlDeviceGetFieldValues", 999)]


def test_a_hung_call_is_named_with_its_gpu(node):
    hung = with_fault(HEALTHY, behaving("nvmlDeviceGetTemperature", "hang", 3))
    problem = node.answer(hung, wait_s=HUNG_AFTER_S + 0.5)["problem"]
    assert (problem["kind"], problem["call"]) == ("hung", "nvmlDeviceGetTemperature")
    assert problem["subject"] == GPU3


def test_a_hung_handle_names_the_index(node):
    hung = with_fault(HEALTHY, behaving("nvmlDeviceGetHandleByIndex", "hang", 5))
    problem = node.answer(hung, wait_s=HUNG_AFTER_S + 0.5)["problem"]
    assert (problem["kind"], problem["subject"]) == ("hung", "GPU 5")


def test_a_crash_inside_the_library_is_a_failed_reading_that_names_the_call(node):
    crash = with_fault(HEALTHY, behaving("nvmlDeviceGetPowerUsage", "abort", 0))
    faulthandler.disable()  # pytest's own, inherited by the child: it would print its stack
    try:
        problem = node.answer(crash)["problem"]
    finally:
        faulthandler.enable()
    assert problem["kind"] == "failed"
    assert "nvmlDeviceGetPowerUsage" in problem["reason"] and GPU0 in problem["reason"]


def test_no_library_is_said_and_is_no_exception(node):
    facts = node.facts()
    assert facts.driver.library_missing and facts.driver.init_error is None
    assert (facts.gpus, facts.p2p) == ((), ())


def test_a_library_that_is_no_library_does_not_count_as_missing(node):
    folder = node.root / NVML_FOLDERS[0]
    folder.mkdir(parents=True)
    (folder / NVML).write_bytes(b"\x00\xff not an ELF file" * 40)
    driver = node.facts().driver
    assert not driver.library_missing
    assert driver.init_error.call == "loading libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("code", "name"),
    [(18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"), (9, "NVML_ERROR_DRIVER_NOT_LOADED")],
)
def test_a_driver_that_does_not_start_is_named(node, code, name):
    facts = node.facts(with_fault(HEALTHY, returning("nvmlInit*", code)))
    assert (facts.driver.init_error.code, facts.driver.init_error.name) == (code, name)
    assert facts.gpus == ()


def test_a_state_file_of_garbage_is_an_error_of_the_driver(node):
    node.facts(HEALTHY)
    (node.root / NVML_FOLDERS[0] / "libnvidia-ml.state").write_bytes(os.urandom(4096))
    assert node.facts().driver.init_error is not None


def test_odd_texts_are_cleaned_or_left_out(node):
    node.facts(HEALTHY)
    state = node.root / NVML_FOLDERS[0] / "libnvidia-ml.state"
    text = state.read_bytes()
    name, vbios = HEALTHY.gpus[0].name.encode(), HEALTHY.gpus[0].vbios_version.encode()
    state.write_bytes(text.replace(name, b"H100 \x1b[31m", 1).replace(vbios, b"\xff\xfe", 1))
    gpu = node.facts().gpus[0]
    assert (gpu.name, gpu.vbios, gpu.errors) == ("H100 [31m", None, ())


def test_processes_carry_uid_and_name_where_proc_tells(node):
    found = (
        SimulatedProcess(pid=4711, memory_bytes=1 << 30),
        SimulatedProcess(pid=4712, memory_bytes=1 << 20),
    )
    status = node.root / "proc/4711/status"
    status.parent.mkdir(parents=True)
    status.write_text("Name:\tpython3\nUmask:\t0022\nUid:\t1001\t1001\t1001\t1001\n")
    processes = node.facts(with_gpu(HEALTHY, 0, processes=found)).gpus[0].processes
    assert [(p.pid, p.uid, p.name) for p in processes] == [
        (4711, 1001, "python3"),
        (4712, None, None),
    ]
    assert processes[0].memory_bytes == 1 << 30 and processes[0].kind == "compute"


def test_only_suspicious_gpus_are_sampled_again(node):
    sick = with_gpu(HEALTHY, 3, clocks_event_reasons=0x88)
    sick = with_gpu(sick, 5, clocks_event_reasons=0x4)
    facts = node.facts(sick)
    gpus = facts.gpus
    assert facts.driver.seconds < 2.0  # the time between samples is not the driver's
    assert gpus[3].clock_event_reasons == (0x88, 0x88, 0x88)
    assert (gpus[5].clock_event_reasons, gpus[0].clock_event_reasons) == ((0x4,), (0x1,))


def test_broken_peer_access_is_read_pair_by_pair(node):
    pairs = (SimulatedP2p(gpus=(0, 3), status=3),)
    facts = node.facts(msgspec.structs.replace(HEALTHY, p2p=pairs))
    assert [(p.first, p.second, p.status) for p in facts.p2p if p.status] == [(GPU0, GPU3, 3)]


def test_cards_before_ampere_report_retired_pages(node):
    rows = dict.fromkeys(("remapped_rows_corrected", "remapped_rows_uncorrected"), None)
    old = with_gpu(
        HEALTHY,
        0,
        **rows,
        retired_pages_single_bit=2,
        retired_pages_double_bit=61,
        retired_pages_pending=1,
    )
    gpu = node.facts(old).gpus[0]
    assert (gpu.retired_pages_single_bit, gpu.retired_pages_double_bit) == (2, 61)
    assert gpu.retired_pages_pending is True and gpu.remap_failed is None


def test_the_inforom_is_validated_only_where_there_is_time(node):
    assert node.facts(HEALTHY).gpus[0].inforom_valid is None
    assert node.facts(stage="sweep").gpus[0].inforom_valid is True
    corrupt = with_fault(HEALTHY, returning("nvmlDeviceValidateInforom", 14, 0))
    assert node.facts(corrupt, stage="sweep").gpus[0].inforom_valid is False


def test_the_child_imports_neither_msgspec_nor_subprocess(node, tmp_path):
    """The probe is started before anything else: what it imports is the prolog's time."""
    install_library(node.cache, node.root / NVML_FOLDERS[0], HEALTHY)
    script = (
        "import sys\n"
        "from healthcheck.host import host_at\n"
        "from healthcheck.reading import Ask, Plan, Progress\n"
        "from healthcheck.probes import nvml\n"
        "nvml.read(Ask(host_at(sys.argv[1]), Plan('prolog'), Progress()))\n"
        "heavy = {'msgspec', 'subprocess', 'shutil', 'tempfile', 'logging', 'dataclasses'}\n"
        "print(sorted(heavy & set(sys.modules)), 'ctypes.util' in sys.modules)\n"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", script, str(node.root)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[0] == "[] False"


def test_the_stand_in_for_ctypes_util_still_finds_libraries():
    assert probe._find_library("c")
