"""The PCI probe on small sysfs folders."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.host import RecordedHost
from healthcheck.model import PciDevice
from healthcheck.probes import pci
from healthcheck.reading import Ask, Plan, Progress

CORRECTABLE = "Receiver Error 0\nBad TLP 3\nRelay Timer Timeout 0\nTOTAL_ERR_COR 4\n"
UNCORRECTABLE = "Undefined 0\nMalformed TLP 0\nTOTAL_ERR_FATAL 0\n"
IDS = {
    "gpu": ("30200", "10DE:2330"),
    "vga": ("30000", "1A03:2000"),
    "nvswitch": ("68000", "10DE:22A3"),
    "nic": ("20700", "15B3:1021"),
    "ethernet": ("20000", "8086:1592"),
    "bridge": ("60400", "1000:C030"),
    "audio": ("40300", "10DE:22BA"),
}


class Machine:
    """A sysfs tree under construction."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sys/bus/pci/devices").mkdir(parents=True)

    def add(self, path: str, kind: str, **files: str | bytes | None) -> Path:
        folder = self.root / "sys/devices" / path
        folder.mkdir(parents=True, exist_ok=True)
        function, ids = IDS[kind]
        defaults: dict[str, str | bytes | None] = {
            "uevent": f"DRIVER=drv\nPCI_CLASS={function}\nPCI_ID={ids}\nPCI_SUBSYS_ID=10DE:16C1\n",
            "config": b"\xde\x10\x30\x23" + b"\0" * 60,
            "current_link_speed": "32.0 GT/s PCIe\n",
            "max_link_speed": "32.0 GT/s PCIe\n",
            "current_link_width": "16\n",
            "max_link_width": "16\n",
            "numa_node": "1\n",
            "aer_dev_correctable": CORRECTABLE,
            "aer_dev_nonfatal": UNCORRECTABLE,
            "aer_dev_fatal": UNCORRECTABLE,
        }
        for name, content in (defaults | files).items():
            if content is not None:
                data = content.encode() if isinstance(content, str) else content
                (folder / name).write_bytes(data)
        (self.root / "sys/bus/pci/devices" / folder.name).symlink_to(
            os.path.relpath(folder, self.root / "sys/bus/pci/devices")
        )
        return folder

    def read(self) -> dict[str, PciDevice]:
        facts = pci.read(Ask(RecordedHost(str(self.root)), Plan(), Progress()))
        devices = msgspec.convert(facts["pci"], tuple[PciDevice, ...])
        return {device.bus_id: device for device in devices}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_gpu_is_read_with_every_bridge_up_to_the_root_port(machine: Machine) -> None:
    root = "pci0000:00/0000:00:01.0"
    machine.add(root, "bridge")
    machine.add(f"{root}/0000:01:00.0", "bridge")
    machine.add(f"{root}/0000:01:00.0/0000:02:03.0", "bridge")
    machine.add(f"{root}/0000:01:00.0/0000:02:03.0/0000:03:00.0", "gpu")
    found = machine.read()
    assert {i: (d.kind, d.parent) for i, d in found.items()} == {
        "0000:00:01.0": ("bridge", None),
        "0000:01:00.0": ("bridge", "0000:00:01.0"),
        "0000:02:03.0": ("bridge", "0000:01:00.0"),
        "0000:03:00.0": ("gpu", "0000:02:03.0"),
    }
    gpu = found["0000:03:00.0"]
    assert (gpu.vendor, gpu.device, gpu.driver) == ("0x10de", "0x2330", "drv")
    assert gpu.subsystem == "10de:16c1"
    assert (gpu.link_speed_gt_s, gpu.link_width, gpu.numa_node) == (32.0, 16, 1)
    assert gpu.config_dead is False
    assert gpu.aer is not None
    assert gpu.aer.correctable == {"Bad TLP": 3}
    assert gpu.aer.fatal == {}


def test_only_devices_that_a_check_asks_about_are_listed(machine: Machine) -> None:
    for number, kind in enumerate(("vga", "audio", "ethernet", "bridge", "nvswitch", "nic")):
        machine.add(f"pci0000:00/0000:00:0{number}.0", kind)
    storage = machine.add("pci0000:00/0000:00:0a.0", "ethernet")
    (storage / "infiniband/bnxt_re0").mkdir(parents=True)
    found = machine.read()
    assert {i: d.kind for i, d in found.items()} == {
        "0000:00:04.0": "nvswitch",
        "0000:00:05.0": "nic",
        "0000:00:0a.0": "nic",
    }
    assert found["0000:00:05.0"].rdma is False
    assert found["0000:00:0a.0"].rdma is True


def test_a_virtual_function_is_marked_and_read_no_further(machine: Machine) -> None:
    machine.add("pci0000:00/0000:00:01.0", "bridge")
    whole = machine.add("pci0000:00/0000:00:01.0/0000:01:00.0", "nic")
    part = machine.add("pci0000:00/0000:00:01.0/0000:01:00.1", "nic")
    (part / "physfn").symlink_to(whole)
    found = machine.read()
    assert found["0000:01:00.1"].virtual
    assert found["0000:01:00.1"].link_width is None
    assert not found["0000:01:00.0"].virtual


def test_a_device_off_the_bus_reads_all_ones(machine: Machine) -> None:
    machine.add(
        "pci0000:00/0000:00:01.0",
        "gpu",
        config=b"\xff" * 64,
        current_link_width="63\n",
        current_link_speed="Unknown\n",
    )
    gpu = machine.read()["0000:00:01.0"]
    assert gpu.config_dead is True
    assert gpu.link_width is None
    assert gpu.link_speed_gt_s is None


def test_identity_comes_from_single_files_where_the_kernel_has_no_uevent(machine: Machine) -> None:
    machine.add(
        "pci0000:00/0000:00:01.0",
        "gpu",
        uevent=None,
        vendor="0x10de\n",
        device="0x2330\n",
        **{"class": "0x030200\n"},
    )
    gpu = machine.read()["0000:00:01.0"]
    assert (gpu.kind, gpu.device) == ("gpu", "0x2330")


ODD = [b"", b"N/A\n", b"\xff\xfe\x00\x01", b"9" * 70_000, b"-1\n", b"\n\n\n", b"1 2 3 GT/s"]


@pytest.mark.parametrize("content", ODD)
def test_odd_contents_are_not_measured_and_never_a_crash(machine: Machine, content: bytes) -> None:
    names = [
        "current_link_speed",
        "max_link_speed",
        "current_link_width",
        "max_link_width",
        "aer_dev_correctable",
        "aer_dev_nonfatal",
        "aer_dev_fatal",
        "numa_node",
    ]
    files: dict[str, Any] = dict.fromkeys(names, content)
    machine.add("pci0000:00/0000:00:01.0", "gpu", **files)
    gpu = machine.read()["0000:00:01.0"]
    assert gpu.link_speed_gt_s is None
    assert gpu.link_width is None
    assert gpu.aer is None
    assert gpu.numa_node is None


def test_a_device_with_nothing_but_its_identity_is_still_listed(machine: Machine) -> None:
    absent: dict[str, Any] = dict.fromkeys(
        ("config", "current_link_speed", "max_link_speed", "current_link_width", "max_link_width",
         "numa_node", "aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
    )  # fmt: skip
    machine.add("pci0000:00/0000:00:01.0", "gpu", **absent)
    gpu = machine.read()["0000:00:01.0"]
    assert gpu.kind == "gpu"
    assert gpu.config_dead is None
    assert gpu.aer is None


def test_a_vmd_domain_ends_the_way_up(machine: Machine) -> None:
    path = "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0"
    machine.add(path, "bridge")
    machine.add(f"{path}/10000:e1:00.0", "gpu")
    found = machine.read()
    assert found["10000:e1:00.0"].parent == "10000:e0:01.0"
    assert found["10000:e0:01.0"].parent is None
    assert "0000:00:0e.0" not in found


def test_a_machine_without_a_pci_bus_is_absent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pci.read(Ask(RecordedHost(str(tmp_path)), Plan(), Progress()))


def test_a_machine_without_gpus_or_nics_has_an_empty_list(machine: Machine) -> None:
    machine.add("pci0000:00/0000:00:01.0", "vga")
    assert machine.read() == {}


def test_the_device_is_noted_before_it_is_read(machine: Machine) -> None:
    machine.add("pci0000:00/0000:00:01.0", "gpu")
    progress = Progress()
    pci.read(Ask(RecordedHost(str(machine.root)), Plan(), progress))
    assert progress.last()[2:] == ("read", "/sys/bus/pci/devices/0000:00:01.0")


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("16.0 GT/s PCIe", 16.0),
        ("16 GT/s", 16.0),
        ("2.5 GT/s", 2.5),
        ("64.0 GT/s PCIe", 64.0),
        ("Unknown", None),
        ("Unknown speed", None),
        ("nan GT/s", None),
        ("inf GT/s", None),
        ("-8 GT/s", None),
        (None, None),
    ],
)
def test_link_speeds_of_all_kernels(text: str | None, speed: float | None) -> None:
    assert pci.parse_speed(text) == speed


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("0000:b3:00.0", True),
        ("10000:e1:00.0", True),
        ("0009:01:00.0", True),
        ("0000:B3:00.0", False),
        ("pci0000:00", False),
        ("0000:b3:00", False),
        ("0000:b3:0g.0", False),
    ],
)
def test_pci_addresses(name: str, valid: bool) -> None:
    assert pci.is_bus_id(name) is valid


def test_the_total_line_is_not_an_error_kind() -> None:
    assert pci.parse_aer("RxErr 2\nTOTAL_ERR_COR 9") == {"RxErr": 2}
    assert pci.parse_aer("nothing that counts") is None


@given(st.text())
def test_no_text_breaks_a_parser(text: str) -> None:
    pci.parse_uevent(text)
    pci.parse_speed(text)
    pci.parse_width(text)
    pci.parse_count(text)
    counts = pci.parse_aer(text)
    assert counts is None or all(0 < n < 1 << 64 and name for name, n in counts.items())
    assert all(pci.is_bus_id(part) for part in pci.parents_in(text))


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Za-z ]{0,20}[a-z]", fullmatch=True),
                       st.integers(0, (1 << 64) - 1)))  # fmt: skip
def test_every_counter_that_the_kernel_writes_is_read_back(counts: dict[str, int]) -> None:
    text = "".join(f"{name} {count}\n" for name, count in counts.items())
    expected = {name: count for name, count in counts.items() if count}
    assert (pci.parse_aer(text) or {}) == expected
