"""The InfiniBand probe on small sysfs folders."""

import errno
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.host import RecordedHost
from healthcheck.model import Hca
from healthcheck.probes import infiniband as ib
from healthcheck.reading import Ask, Plan, Progress


def make_hca(root: Path, name: str, address: str, ports: int = 1, **files: str | bytes) -> Path:
    pci = root / f"sys/devices/pci0000:00/{address}"
    folder = pci / "infiniband" / name
    for file, text in {
        "fw_ver": "28.39.2048\n",
        "board_id": "MT_0000000838\n",
        "hca_type": "MT4129\n",
        "node_guid": "a088:c203:0056:5e6a\n",
    }.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    (folder / "device").symlink_to("../..")
    for number in range(1, ports + 1):
        port = folder / "ports" / str(number)
        (port / "counters").mkdir(parents=True)
        (port / "hw_counters").mkdir()
        defaults: dict[str, str | bytes] = {
            "state": "4: ACTIVE\n",
            "phys_state": "5: LinkUp\n",
            "rate": "400 Gb/sec (4X NDR)\n",
            "link_layer": "InfiniBand\n",
        }
        defaults |= {f"counters/{c}": "0\n" for c in ib.COUNTERS}
        defaults |= {f"hw_counters/{c}": "0\n" for c in ib.HW_COUNTERS}
        for file, content in (defaults | files).items():
            target = port / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
    link = root / "sys/class/infiniband" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"../../devices/pci0000:00/{address}/infiniband/{name}")
    return folder


def read(root: Path, host: RecordedHost | None = None) -> tuple[Hca, ...]:
    facts = ib.read(Ask(host or RecordedHost(str(root)), Plan(), Progress()))
    return msgspec.convert(facts["hcas"], tuple[Hca, ...])


def test_a_healthy_port(tmp_path: Path) -> None:
    make_hca(tmp_path, "mlx5_0", "0000:18:00.0")
    (hca,) = read(tmp_path)
    (port,) = hca.ports
    assert (hca.name, hca.bus_id, hca.virtual) == ("mlx5_0", "0000:18:00.0", False)
    assert (hca.firmware, hca.board_id) == ("28.39.2048", "MT_0000000838")
    assert (hca.hca_type, hca.node_guid) == ("MT4129", "a088:c203:0056:5e6a")
    assert (port.state, port.phys_state, port.rate_gb_s) == ("ACTIVE", "LinkUp", 400.0)
    assert port.link_layer == "InfiniBand"
    assert set(port.counters) == set(ib.COUNTERS)
    assert set(port.hw_counters) == set(ib.HW_COUNTERS)
    assert port.unreadable == ()


def test_a_kernel_without_infiniband_has_no_device_and_that_is_measured(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    assert read(tmp_path) == ()


def test_a_machine_without_sysfs_is_absent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path)


def test_virtual_functions_are_marked_and_not_read(tmp_path: Path) -> None:
    make_hca(tmp_path, "mlx5_0", "0000:18:00.0")
    folder = make_hca(tmp_path, "mlx5_1", "0000:18:00.2")
    (folder.parent.parent / "physfn").symlink_to("../0000:18:00.0")
    whole, part = read(tmp_path)
    assert not whole.virtual
    assert part.virtual
    assert part.ports == ()


def test_a_scalable_function_is_virtual_and_names_its_card(tmp_path: Path) -> None:
    folder = make_hca(tmp_path, "mlx5_7", "0000:18:00.0/mlx5_core.sf.4")
    assert folder.exists()
    (hca,) = read(tmp_path)
    assert (hca.bus_id, hca.virtual) == ("0000:18:00.0", True)


def test_a_software_device_is_virtual(tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband/rxe0/ports/1").mkdir(parents=True)
    (hca,) = read(tmp_path)
    assert (hca.bus_id, hca.virtual) == (None, True)


def test_an_ethernet_port_names_its_interface(tmp_path: Path) -> None:
    files: dict[str, Any] = {"link_layer": "Ethernet\n", "gid_attrs/ndevs/0": "eth4\n"}
    make_hca(tmp_path, "mlx5_0", "0000:18:00.0", **files)
    assert read(tmp_path)[0].ports[0].netdev == "eth4"


ODD = [b"", b"N/A\n", b"\xff\xfe\x00", b"7" * 70_000, b"-3\n", b": \n"]


@pytest.mark.parametrize("content", ODD)
def test_odd_contents_are_not_measured_and_never_a_crash(tmp_path: Path, content: bytes) -> None:
    names = ["state", "phys_state", "rate", "link_layer"]
    names += [f"counters/{c}" for c in ib.COUNTERS]
    files: dict[str, Any] = dict.fromkeys(names, content)
    make_hca(tmp_path, "mlx5_0", "0000:18:00.0", **files)
    (port,) = read(tmp_path)[0].ports
    assert (port.state, port.phys_state, port.rate_gb_s) == (None, None, None)
    assert port.link_layer is None
    assert port.counters == {}
    assert set(port.unreadable) == set(ib.COUNTERS)


def test_a_counter_that_does_not_exist_is_not_unreadable(tmp_path: Path) -> None:
    folder = make_hca(tmp_path, "mlx5_0", "0000:18:00.0")
    (folder / "ports/1/hw_counters/out_of_sequence").unlink()
    (port,) = read(tmp_path)[0].ports
    assert "out_of_sequence" not in port.hw_counters
    assert port.unreadable == ()


def test_a_refused_counter_is_asked_once_a_device(tmp_path: Path) -> None:
    make_hca(tmp_path, "mlx5_0", "0000:18:00.0", ports=2)
    asked: Counter[str] = Counter()

    class Restricted(RecordedHost):
        def read_text(self, path: str, limit: int = 65_536) -> str:
            if path.endswith("rnr_nak_retry_err"):
                asked[path] += 1
                raise OSError(errno.EINVAL, "Invalid argument", path)
            return super().read_text(path, limit)

    (hca,) = read(tmp_path, Restricted(str(tmp_path)))
    assert sum(asked.values()) == 1
    assert [port.unreadable for port in hca.ports] == [("rnr_nak_retry_err",)] * 2
    assert all("packet_seq_err" in port.hw_counters for port in hca.ports)


def test_each_port_is_noted_before_it_is_read(tmp_path: Path) -> None:
    make_hca(tmp_path, "mlx5_3", "0000:18:00.0")
    progress = Progress()
    ib.read(Ask(RecordedHost(str(tmp_path)), Plan(), progress))
    assert progress.last()[2:] == ("read", "/sys/class/infiniband/mlx5_3/ports/1")


def test_devices_without_ports_and_strange_port_names_are_survived(tmp_path: Path) -> None:
    folder = make_hca(tmp_path, "mlx5_0", "0000:18:00.0")
    (folder / "ports/not-a-port").mkdir()
    make_hca(tmp_path, "mlx5_1", "0000:19:00.0", ports=0)
    first, second = read(tmp_path)
    assert [port.number for port in first.ports] == [1]
    assert second.ports == ()


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)", 400.0),
        ("2.5 Gb/sec (1X SDR)", 2.5),
        ("800 Gb/sec (4X XDR)", 800.0),
        ("nan Gb/sec", None),
        ("fast", None),
        (None, None),
    ],
)
def test_rates(text: str | None, rate: float | None) -> None:
    assert ib.parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("4: ACTIVE", "ACTIVE"),
        ("2: INIT", "INIT"),
        ("5: LinkUp", "LinkUp"),
        ("5: ACTIVE_DEFER", "ACTIVE_DEFER"),
        ("6: LinkErrorRecovery", "LinkErrorRecovery"),
        ("ACTIVE", None),
        ("4: \x1b[31mACTIVE", None),
    ],
)
def test_states(text: str, state: str | None) -> None:
    assert ib.parse_state(text) == state


@given(st.text())
def test_no_text_breaks_a_parser(text: str) -> None:
    state, rate, word = ib.parse_state(text), ib.parse_rate(text), ib.parse_word(text)
    assert state is None or (state.isascii() and state.isprintable())
    assert rate is None or 0 <= rate < 1e5
    assert word is None or len(word) <= 64
    ib.address_in(text)
