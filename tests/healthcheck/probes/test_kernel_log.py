"""The kernel log's real wordings, and everything that is not a kernel line."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model import KernelEvent
from healthcheck.probes import kernel_log
from healthcheck.probes._kernel_lines import MAX_MESSAGE, pci_address
from healthcheck.probes._storm import MAX_EVENTS
from healthcheck.probes.kernel_log import parse_kernel_log
from healthcheck.reading import Ask, Plan, Progress


def record(text: str, sequence: int = 500, seconds: float = 10.0, prefix: int = 4) -> bytes:
    return f"{prefix},{sequence},{int(seconds * 1e6)},-;{text}\n".encode()


def only(text: str) -> KernelEvent:
    events = parse_kernel_log([record(text)]).events
    assert len(events) == 1, (text, events)
    return events[0]


XIDS = [
    (
        "NVRM: Xid (PCI:0000:b3:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
        (79, "0000:b3:00.0", 1234, "python"),
    ),
    (
        "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.",
        (79, "0000:91:00.0", None, None),
    ),
    (
        "NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.",
        (79, "0000:02:00.0", None, None),
    ),
    ("NVRM: Xid (PCI:00000000:B3:00.0): 48, DBE", (48, "0000:b3:00.0", None, None)),
    ("NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 05 (0x004505c6)",
     (149, "0009:01:00.0", None, None)),
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", (14, "0000:03:00.0", None, None)),
    ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 31, pid=77, name=a.out, Ch 0000000a, intr 10000000.",
     (31, "0000:01:00.0", 77, "a.out")),
    ("NVRM: Xid (GPU-6A7B8C9D-0001-0002-0003-000000000004): 63, Row Remapper: New row",
     (63, "gpu-6a7b8c9d-0001-0002-0003-000000000004", None, None)),
    ("NVRM: Xid (PCI:0000:48:00): 45, pid=22884, name=VLLM::Worker, channel 0x00000010 "
     "caused by previous Xid 45", (45, "0000:48:00.0", 22884, "VLLM::Worker")),
    ("NVRM: Xid (PCI:0000:48:00): 74, pid=22884, name=VLLM::Worker_TP, NVLink: fatal error "
     "detected on link 8(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
     (74, "0000:48:00.0", 22884, "VLLM::Worker_TP")),
    ("NVRM: Xid (PCI:0000:48:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 "
     "(GPU Reset Required)", (154, "0000:48:00.0", None, None)),
    ("NVRM: Xid (PCI:0000:61:00): 119, pid=1365232, name=nvidia-smi, Timeout waiting for RPC from "
     "GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801348 0x410).",
     (119, "0000:61:00.0", 1365232, "nvidia-smi")),
    ("NVRM: Xid (PCI:0000:41:00): 13, Graphics SM Warp Exception on (GPC 1, TPC 0, SM 0): "
     "Illegal Instruction Encoding", (13, "0000:41:00.0", None, None)),
    ("NVRM: Xid (PCI:0000:41:00): 999", (999, "0000:41:00.0", None, None)),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), XIDS)
def test_every_wording_of_an_xid_is_read(line, expected):
    event = only(line)
    assert event.kind == "xid"
    assert (event.code, event.subject, event.pid, event.process) == expected


OTHERS = [
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 44 sourcetrack timeout error "
     "(First)", "sxid", "0000:c1:00.0"),
    ("nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 24007, Severity 1 Engine instance 12 Sub-engine "
     "instance 00", "sxid", "0000:aa:00.0"),
    ("mce: [Hardware Error]: CPU 2: Machine Check Exception: 5 Bank 5: be00000000800400",
     "mce", "cpu"),
    ("mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 7: cc00008000010090", "mce", "cpu"),
    ("mce: [Hardware Error]: Machine check events logged", "mce", "cpu"),
    ("{1}[Hardware Error]: event severity: fatal", "mce", "cpu"),
    ("[Hardware Error]: Uncorrected, software restartable error.", "mce", "cpu"),
    ("EDAC MC0: 3 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)",
     "memory", "mc0"),
    ("EDAC MC12: 1 UE memory read error on unknown memory", "memory", "mc12"),
    ("Memory failure: 0x1a2b3c: recovery action for dirty LRU page: Recovered", "memory", "memory"),
    ("mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the "
     "PCIe slot (27W).", "nic-power", "0000:5c:00.0"),
    ("mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, Power budget "
     "exceeded", "nic-power", "0000:5c:00.0"),
    ("mlx5_core 0000:86:00.0: poll_health:835:(pid 0): device's health compromised - reached miss "
     "count", "nic", "0000:86:00.0"),
    ("mlx5_core 0000:86:00.0: print_health_info:431:(pid 0): assert_var[0] 0x00000001", "nic",
     "0000:86:00.0"),
    ("mlx5_core 0000:86:00.0: poll_health:827:(pid 0): Fatal error 1 detected", "nic",
     "0000:86:00.0"),
    ("mlx5_core 0000:86:00.0: print_health_info:446:(pid 0): Health issue observed, firmware "
     "internal error, severity(3) ERROR:", "nic", "0000:86:00.0"),
    ("mlx5_core 0000:41:00.0 ens3f0np0: Link down", "nic", "0000:41:00.0"),
    ("mlx5_core 0000:41:00.0: mlx5_pcie_event:299: PCIe Bus Error: severity=Corrected", None, ""),
    ("pcieport 0000:00:02.0: AER: Corrected error received: id=0010", "pcie", "0000:00:02.0"),
    ("pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010", "pcie",
     "0000:00:02.0"),
    ("pcieport 0000:00:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, "
     "id=0010(Receiver ID)", "pcie", "0000:00:02.0"),
    ("pcieport 0000:00:02.0:    [ 5] Surprise Down Error    (First)", "pcie", "0000:00:02.0"),
    ("pcieport 0000:15:01.0: DPC: containment event, status:0x1f01 source:0x0000", "pcie",
     "0000:15:01.0"),
    ("pcieport 0000:15:01.0: pciehp: Slot(1): Link Down", "pcie", "0000:15:01.0"),
    ("nvidia 0000:b3:00.0: AER: Corrected error message received from 0000:b3:00.0", "pcie",
     "0000:b3:00.0"),
    ("mlx5_core 0000:86:00.0: AER: device recovery failed", "pcie", "0000:86:00.0"),
    ("NVRM: GPU 0000:02:00.0 does not have the necessary power cables connected.", "power",
     "0000:02:00.0"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "kind", "subject"), [row for row in OTHERS if row[1]])
def test_other_hardware_lines_are_read(line, kind, subject):
    event = only(line)
    assert (event.kind, event.subject) == (kind, subject)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU Board Serial Number: 1653723052734",
        "NVRM: _kgspLogXid119: Note: Please also check logs above.",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06",
        "nvidia 0000:02:00.0: device has no AER-aware driver",
        "pcieport 0000:00:02.0: AER: enabled with IRQ 26",
        "pcieport 0000:00:02.0:   device [8086:6f04] error status/mask=00001000/00002000",
        "pcieport 0000:15:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+",
        "pcieport 0000:15:01.0: pciehp: Slot #1 AttnBtn- PwrCtrl- MRL- AttnInd- HotPlug+",
        "mce: CPU0: Package temperature above threshold, cpu clock throttled",
        "mce: [Hardware Error]: TSC 0 ADDR 1f0ff MISC 40",
        "{1}[Hardware Error]: event severity: info",
        "EDAC MC: Ver: 3.0.0",
        "EDAC MC0: Giving out device to module i10nm_edac controller Intel_10nm Socket#0 IMC#0",
        "mlx5_core 0000:41:00.0: mlx5_pcie_event:301:(pid 9): PCIe slot advertised sufficient "
        "power (27W).",
        "mlx5_core 0000:41:00.0: mlx5_cmd_out_err:800:(pid 233522): CREATE_MKEY(0x200) op_mod(0x0) "
        "failed, status limits exceeded(0x8), syndrome (0x18af6), err(-12)",
        "infiniband mlx5_0: create_mkey_warn:158:(pid 0): async reg mr failed. status -121",
        "mlx5_core 0000:41:00.0: firmware version: 28.39.1002",
        # A user chooses these texts, but not how the line begins.
        "usb 1-1: Product: NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:[1234]: segfault at 0 ip 0000 sp 0000 error 4 in x",
        "oom-kill:constraint=x,task=NVRM: Xid (PCI:0000:b3:00): 79, pid=1",
    ],
)
def test_lines_that_are_no_fault_are_not_events(line):
    assert parse_kernel_log([record(line)]).events == ()


@pytest.mark.parametrize("prefix", [8 + 3, 12, 30, 4 + (16 << 3)])
def test_what_a_user_wrote_to_the_device_is_ignored(prefix):
    line = "NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus."
    assert parse_kernel_log([record(line, prefix=prefix)]).events == ()
    assert len(parse_kernel_log([record(line, prefix=prefix & 7)]).events) == 1


def test_only_records_since_the_last_reading_count_and_the_next_one_is_named():
    line = "NVRM: Xid (PCI:0000:b3:00): 79, x"
    log = parse_kernel_log(
        [record(line, 10), record(line, 20, 100), record("systemd[1]: hello", 21)], since=20
    )
    assert [event.sequence for event in log.events] == [20]
    assert (log.next_sequence, log.lost_records) == (22, 0)


def test_a_ring_that_wrapped_says_how_many_records_nobody_read():
    assert parse_kernel_log([record("a", 130), record("b", 131)], since=100).lost_records == 30
    assert parse_kernel_log([record("a", 130)], since=0).lost_records == 0
    assert parse_kernel_log([record("a", 100)], since=100).lost_records == 0


def test_a_log_that_began_anew_is_read_from_its_start():
    log = parse_kernel_log([record("NVRM: Xid (PCI:0000:b3:00): 79, x", 5)], since=9000)
    assert [event.code for event in log.events] == [79]
    assert log.next_sequence == 6


def test_an_empty_log_keeps_the_place():
    assert parse_kernel_log([], since=77).next_sequence == 77


def test_continuation_lines_apart_or_within_a_record_change_nothing():
    line = record("NVRM: Xid (PCI:0000:b3:00): 79, x", 7)
    forged = b" DEVICE=4,9,1,-;NVRM: Xid (PCI:0000:b3:00): 48, x\n"
    apart = parse_kernel_log([line, b" SUBSYSTEM=pci", b" DEVICE=+pci:0000:b3:00.0", forged])
    within = parse_kernel_log([line + b" SUBSYSTEM=pci\n DEVICE=+pci:0000:b3:00.0\n" + forged])
    assert [event.code for event in apart.events] == [79]
    assert apart == within
    assert apart.next_sequence == 8


def test_a_uuid_is_resolved_by_the_driver_s_own_line():
    uuid = "GPU-6a7b8c9d-0001-0002-0003-000000000004"
    log = parse_kernel_log(
        [
            record(f"NVRM: GPU at PCI:0000:b3:00: {uuid}", 1),
            record(f"NVRM: Xid ({uuid}): 79, GPU has fallen off the bus.", 2),
        ]
    )
    assert [event.subject for event in log.events] == ["0000:b3:00.0"]


def test_a_uuid_is_resolved_by_a_line_that_an_earlier_reading_saw():
    uuid = "GPU-6a7b8c9d-0001-0002-0003-000000000004"
    records = [
        record(f"NVRM: GPU at PCI:0000:b3:00: {uuid}", 1),
        record("NVRM: Xid (PCI:0000:27:00): 48, old", 2),
        record(f"NVRM: Xid ({uuid}): 79, GPU has fallen off the bus.", 9),
    ]
    log = parse_kernel_log(records, since=5)
    assert [(event.code, event.subject) for event in log.events] == [(79, "0000:b3:00.0")]


def test_a_storm_that_was_read_before_costs_no_memory():
    tracemalloc.start()
    log = parse_kernel_log(
        (record("NVRM: Xid (PCI:0000:b3:00): 31, x", i) for i in range(50_000)), since=50_000
    )
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert (log.events, log.next_sequence) == ((), 50_000)


def test_a_line_is_bounded_and_can_do_nothing_to_a_terminal():
    evil = "\x1b[2J\x07\u202e" + "A" * 3000
    event = only(f"NVRM: Xid (PCI:0000:b3:00): 79, {evil}")
    assert len(event.message) <= MAX_MESSAGE
    assert all(character.isprintable() for character in event.message)


def test_a_storm_is_counted_not_kept():
    def storm():
        for i in range(100_000):
            yield record(f"NVRM: Xid (PCI:0000:b3:00): 31, pid={i}, name=a, Ch {i:08x}", i, i / 1e4)

    tracemalloc.start()
    log = parse_kernel_log(storm())
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    assert len(log.events) <= 8
    assert sum(event.count for event in log.events) == 100_000
    assert log.events[0].sequence == 0
    assert (log.events[-1].until_s or log.events[-1].uptime_s) == pytest.approx(9.9999, abs=0.01)
    tracemalloc.stop()


def test_repetitions_hours_apart_stay_apart_with_first_and_last():
    line = "NVRM: Xid (PCI:0000:b3:00): 119, Timeout waiting for RPC from GSP!"
    log = parse_kernel_log([record(line, i, i * 45.0) for i in range(1000)])
    assert log.events[0].uptime_s == 0
    assert log.events[-1].uptime_s == 999 * 45.0
    assert 2 <= len(log.events) <= 8
    assert sum(event.count for event in log.events) == 1000


def test_a_storm_of_different_lines_is_bounded_and_hides_no_single_line():
    noise = [
        record(f"NVRM: Xid (PCI:0000:b3:00): 13, word{chr(97 + i % 26)}{i}x", i, i)
        for i in range(20_000)
    ]
    noise.insert(9_000, record("NVRM: Xid (PCI:0000:27:00): 79, off", 9_000, 9_000))
    log = parse_kernel_log(noise)
    assert len(log.events) <= MAX_EVENTS
    assert [event.subject for event in log.events if event.code == 79] == ["0000:27:00.0"]
    assert sum(event.count for event in log.events) == 20_001


def test_a_fatal_line_is_not_folded_into_a_nonfatal_one():
    head = "NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT"
    log = parse_kernel_log(
        [record(f"{head} Nonfatal XC0 i0 Link 05", 1), record(f"{head} Fatal XC0 i0 Link 06", 2)]
    )
    assert ["Nonfatal" in event.message for event in log.events] == [True, False]


def test_recovery_actions_are_not_folded_into_each_other():
    head = "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from"
    log = parse_kernel_log(
        [
            record(f"{head} 0x0 (None) to 0x1 (GPU Reset Required)", 1),
            record(f"{head} 0x1 (GPU Reset Required) to 0x0 (None)", 2),
        ]
    )
    assert len(log.events) == 2


def test_edac_counts_several_errors_in_one_line():
    assert only("EDAC MC0: 3 CE memory read error on CPU_SrcID#0").count == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PCI:0000:b3:00", "0000:b3:00.0"),
        ("PCI:00000000:B3:00.1", "0000:b3:00.1"),
        ("PCI:00010000:01:00", "10000:01:00.0"),
        ("GPU-6A7B8C9D-0001-0002-0003-000000000004", "gpu-6a7b8c9d-0001-0002-0003-000000000004"),
        ("nonsense", ""),
    ],
)
def test_addresses_are_those_of_sysfs(text, expected):
    assert pci_address(text) == expected


class FakeHost:
    def __init__(self, records):
        self.records = records

    def kernel_records(self, since):
        if isinstance(self.records, OSError):
            raise self.records
        yield from self.records

    def read_text(self, path, limit=0):
        assert path == "/proc/sys/kernel/dmesg_restrict"
        return "1"


def read(host, since=0):
    return kernel_log.read(Ask(host, Plan(kernel_log_since=since), Progress()))


def test_the_probe_gives_the_log_as_plain_data():
    facts = read(FakeHost([record("NVRM: Xid (PCI:0000:b3:00): 79, x")]))
    assert msgspec.to_builtins(facts)["kernel_log"]["events"][0]["code"] == 79


def test_no_permission_is_told_with_the_setting_that_forbids_it():
    with pytest.raises(PermissionError, match="dmesg_restrict = 1"):
        read(FakeHost(PermissionError(1, "Operation not permitted", "/dev/kmsg")))


def test_no_device_is_absent():
    with pytest.raises(FileNotFoundError):
        read(FakeHost(FileNotFoundError(2, "No such file or directory", "/dev/kmsg")))


LINES = [line for line, *_ in (*XIDS, *OTHERS)]


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(0, 2**63))
def test_no_bytes_crash_the_parser(records, since):
    log = parse_kernel_log(records, since)
    assert log.next_sequence >= 0
    assert log.lost_records >= 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(LINES), st.integers(0, 300), st.binary(max_size=12), st.integers(0, 255)
        ),
        max_size=20,
    )
)
def test_no_damaged_line_crashes_the_parser(damaged):
    records = []
    for number, (line, at, junk, prefix) in enumerate(damaged):
        raw = record(line, number, number, prefix)
        records.append(raw[:at] + junk + raw[at + len(junk) // 2 :])
    for event in parse_kernel_log(records).events:
        assert len(event.message) <= MAX_MESSAGE
        assert event.message.isprintable()
