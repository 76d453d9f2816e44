"""Kernel logs in every form that an operator may hand over."""

import pytest

from epilog.kernel_log import read_kernel_log
from epilog.model import Role

XID79 = "NVRM: Xid (PCI:0000:b3:00): 79, pid=1, name=python, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("", None),
        ("[74889.644138] ", None),
        ("[  +0.000316] ", None),
        ("<4>[   12.345678] ", None),
        ("kern  :warn  : [74889.644138] ", None),
        ("[Fri Mar  3 04:44:24 2023] ", 1677818664.0),
        ("2023-03-03T04:44:24,500000+00:00 ", 1677818664.5),
        ("2023-03-03T04:44:24+01:00 gpu01 kernel: ", 1677815064.0),
        ("Mar  3 04:44:24 gpu01 kernel: ", 1677818664.0),
        ("Mar  3 04:44:24 gpu01.example.org kernel: [74889.644138] ", 1677818664.0),
        ("gpu01: kern: warning: [2023-03-03T04:44:24.500000000Z]: ", 1677818664.5),
        ("4,1234,74889644138,-;", None),
    ],
)
def test_stamps_are_taken_off(stamp: str, at: float | None) -> None:
    (fact,) = read_kernel_log([(stamp + XID79).encode()], "k", "gpu01", 2023)
    assert (fact.klass, fact.role, fact.fact, fact.host) == (
        "hardware/gpu-off-bus", Role.ROOT, True, "gpu01"
    )  # fmt: skip
    assert fact.at == at
    assert fact.fields == {"gpu": "0000:b3:00.0", "code": "79"}


@pytest.mark.parametrize(
    ("text", "klass", "role"),
    [
        ("NVRM: Xid (PCI:0000:1b:00): 48, DBE", "hardware/gpu-ecc", Role.ROOT),
        ("NVRM: Xid (PCI:0000:1b:00): 94, Contained", "hardware/gpu-ecc", Role.SYMPTOM),
        ("NVRM: Xid (PCI:0000:1b:00): 95, Uncontained", "hardware/gpu-ecc", Role.ROOT),
        ("NVRM: Xid (PCI:0000:1b:00): 64, failure", "hardware/gpu-ecc", Role.ROOT),
        ("NVRM: Xid (PCI:0000:1b:00): 31, MMU Fault", "user/illegal-access", Role.SYMPTOM),
        ("NVRM: Xid (PCI:0000:1b:00): 13, Graphics", "user/illegal-access", Role.SYMPTOM),
        ("NVRM: Xid (PCI:0000:1b:00): 119, GSP", "hardware/gpu-gsp", Role.ROOT),
        ("NVRM: Xid (PCI:0000:1b:00): 62, halt", "hardware/gpu-hang", Role.ROOT),
        ("NVRM: Xid (PCI:0000:1b:00): 167, PCIe", "hardware/gpu-pcie", Role.ROOT),
        ("NVRM: Xid (PCI:0000:1b:00): 145, RLW Nonfatal", "hardware/gpu-nvlink", Role.SYMPTOM),
        ("NVRM: Xid (PCI:0000:1b:00): 145, RLW Fatal", "hardware/gpu-nvlink", Role.ROOT),
        ("nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 20034, x", "hardware/gpu-nvlink", Role.ROOT),
        ("nvidia-nvswitch1: SXid (PCI:0000:aa:00.0): 11012, x",
         "hardware/gpu-nvlink", Role.SYMPTOM),
        ("EDAC MC0: 1 UE memory read error on DIMM", "hardware/host-memory", Role.ROOT),
        ("EDAC MC0: 1 CE memory read error on DIMM", "hardware/host-memory", Role.SYMPTOM),
        ("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: be00000000010092",
         "hardware/host-memory", Role.ROOT),
        ("mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 9c00000000010092",
         "hardware/host-memory", Role.SYMPTOM),
        ("mlx5_core 0000:41:00.0: health_care:155:(pid 9): device's health compromised - reached",
         "hardware/nic", Role.ROOT),
        ("pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010",
         "hardware/gpu-pcie", Role.ROOT),
        ("pcieport 0000:00:02.0: AER: Corrected error received: id=0010",
         "hardware/gpu-pcie", Role.SYMPTOM),
    ],
)  # fmt: skip
def test_what_a_line_proves(text: str, klass: str, role: Role) -> None:
    (fact,) = read_kernel_log([f"[1.000000] {text}".encode()], "k", "n")
    assert (fact.klass, fact.role) == (klass, role)


def test_a_contained_error_that_returns_is_a_fault() -> None:
    lines = [
        f"[Tue Dec  1 0{n}:00:00 2026] NVRM: Xid (PCI:0000:1b:00): 94, C".encode() for n in (1, 3)
    ]
    assert {fact.role for fact in read_kernel_log(lines, "k", "n")} == {Role.ROOT}


def test_consequences_follow_their_cause() -> None:
    lines = [
        b"[1.0] NVRM: Xid (PCI:0000:48:00): 45, channel",
        b"[1.1] NVRM: Xid (PCI:0000:48:00): 74, NVLink: fatal error",
    ]
    first, cause = read_kernel_log(lines, "k", "n")
    assert (first.role, cause.role) == (Role.CONSEQUENCE, Role.ROOT)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"\xff\xfe\x00", b"[" * 5000, b"usb 1-1: NVRM: Xid (PCI:0000:b3:00): 79, fake",
        b"[1.0] python[1]: NVRM: Xid (PCI:0000:b3:00): 79, written by a user",
        b"[9999-99-99T99:99:99Z] nothing", b"x" * 100_000,
    ],
)  # fmt: skip
def test_other_lines_are_no_facts(line: bytes) -> None:
    assert read_kernel_log([line], "k", "n") == []
