"""A profile learned from a good node: strict, loadable, and the node itself fits it."""

from datetime import date

import msgspec
import pytest

from healthcheck.config import Config
from healthcheck.judge import Selection, judge
from healthcheck.learn import learn, rules
from healthcheck.model import (
    Driver,
    Fabric,
    Filesystem,
    Gpu,
    Hca,
    Memory,
    NvLink,
    P2pPair,
    PciDevice,
    Port,
    Problem,
    Severity,
    Snapshot,
)
from healthcheck.profile import choose_profile, load_profile
from healthcheck.profile_text import profile_text
from healthcheck.registry import load_checks

ADDRESSES = [f"0000:{bus:02x}:00.0" for bus in range(0x10, 0x18)]


def gpu(index, **changes):
    facts = {
        "index": index,
        "bus_id": ADDRESSES[index],
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_total_bytes": 81559 << 20,
        "temperature_c": 30,
        "temperature_slowdown_c": 89,
        "sm_clock_max_mhz": 1980,
        "power_limit_w": 700.0,
        "power_limit_enforced_w": 700.0,
        "ecc_enabled": True,
        "mig_enabled": False,
        "nvlinks": tuple(NvLink(i, active=True, speed_mb_s=26562) for i in range(18)),
        "fabric": Fabric(3, 0),
    }
    return Gpu(**facts | changes)


def device(bus_id, kind="gpu", **changes):
    facts = {
        "vendor": "0x10de",
        "device": "0x2330" if kind == "gpu" else "0x1021",
        "link_width": 16,
        "link_width_max": 16,
        "link_speed_gt_s": 2.5 if kind == "gpu" else 32.0,
        "link_speed_max_gt_s": 32.0,
    }
    return PciDevice(bus_id=bus_id, kind=kind, **facts | changes)


def node(**changes):
    hcas = [
        Hca(f"mlx5_{i}", (Port(1, "ACTIVE", "LinkUp", 400.0, "InfiniBand"),), f"0000:5{i}:00.0")
        for i in range(8)
    ]
    unused = Hca("mlx5_8", (Port(1, "DOWN", "Polling", 10.0, "InfiniBand"),))
    facts = {
        "node": "good01",
        "taken_at": 1_796_083_200.0,
        "driver": Driver(version="570.133.20", gpu_count=8),
        "gpus": tuple(gpu(i) for i in range(8)),
        "p2p": tuple(P2pPair(a, b, 0) for a in ADDRESSES for b in ADDRESSES if a < b),
        "pci": (
            *(device(bus_id) for bus_id in ADDRESSES),
            *(device(f"0000:5{i}:00.0", "nic") for i in range(8)),
        ),
        "hcas": (*hcas, unused),
        "memory": Memory(2015 << 30),
        "modules": ("nvidia", "nvidia_uvm", "nvidia_peermem", "ext4"),
        "filesystems": (Filesystem("/", "ok"), Filesystem("/scratch", "stale")),
        "services": {"nvidia-fabricmanager": "active", "cups": "failed"},
    }
    return Snapshot(**facts | changes)


def values(profile):
    return {
        (check, field): figure.value
        for check, figures in profile.checks.items()
        for field, figure in figures.items()
    }


def test_what_a_good_node_has_is_what_its_like_must_have():
    profile, left_out = learn(node(), "ours")
    assert left_out == []
    found = values(profile)
    assert found["gpu-count", "gpus"] == 8
    assert found["gpu-memory", "min_gib"] == 79
    assert (found["gpu-temperature", "warn_c"], found["gpu-temperature", "fail_c"]) == (84, 89)
    assert found["gpu-clocks", "max_sm_mhz"] == 1980
    assert found["gpu-power-limit", "limit_w"] == 700
    assert (found["gpu-modes", "ecc"], found["gpu-modes", "mig"]) == (True, False)
    assert found["gpu-driver-version", "minimum"] == "570.133.20"
    assert (found["nvlink-links", "links"], found["nvlink-speed", "speed_mb_s"]) == (18, 26562)
    assert found["nvlink-fabric", "required"] is found["nvlink-p2p", "required"] is True
    assert (found["pcie-width", "gpu"], found["pcie-width", "nic"]) == (16, 16)
    assert (found["pcie-generation", "gpu"], found["pcie-generation", "nic"]) == (5, 5)
    assert (found["ib-ports", "active"], found["ib-ports", "rate_gb_s"]) == (8, 400)
    assert found["ib-ports", "names"] == [f"mlx5_{i}/1" for i in range(8)]
    assert found["memory-size", "min_gib"] == 2015
    assert found["kernel-modules", "modules"] == ["nvidia", "nvidia_uvm", "nvidia_peermem"]
    assert profile.match == msgspec.convert({"pci_device_ids": ["0x2330"], "gpus": 8},
                                            type(profile.match))  # fmt: skip
    assert (profile.mounts, profile.services) == (("/",), ("nvidia-fabricmanager",))
    assert profile.title == "8 × NVIDIA H100 80GB HBM3, as good01 was on 2026-12-01"


def test_every_figure_says_which_node_taught_it_and_when():
    profile, _ = learn(node(), "ours")
    sources = {f.source for figures in profile.checks.values() for f in figures.values()}
    assert sources == {"learned from good01 on 2026-12-01"}


def test_everything_that_can_be_learned_is_a_limit_of_a_check():
    checks, _ = load_checks()
    for check, field in rules():
        assert field in checks[check].limits.__struct_fields__, (check, field)


def test_the_profile_loads_again_and_is_the_same(tmp_path):
    profile, left_out = learn(node(), "ours")
    (tmp_path / "ours.toml").write_text(profile_text(profile, tuple(left_out)))
    again = load_profile("ours", [str(tmp_path)])
    assert msgspec.to_builtins(msgspec.structs.replace(again, path="")) == msgspec.to_builtins(
        profile
    )


def test_the_node_itself_fits_what_was_learned_and_is_found_by_its_hardware(tmp_path):
    good = node()
    profile, _ = learn(good, "ours")
    (tmp_path / "ours.toml").write_text(profile_text(profile))
    chosen, notes, refused = choose_profile("auto", [str(tmp_path)], None, good.pci)
    assert (chosen.name, notes, refused) == ("ours", [], False)
    learned = {check for check, _ in rules()}
    checks, _ = load_checks()
    outcomes = judge(
        good, checks.values(), {}, chosen, Config(), Selection("sweep", frozenset(learned)),
        date(2026, 12, 1),
    )  # fmt: skip
    assert {o.check for o in outcomes} == learned
    bad = [
        (o.check, f.message) for o in outcomes for f in o.findings if f.severity is Severity.FAIL
    ]
    assert bad == []
    assert {o.check: o.reason for o in outcomes if o.outcome == "error"} == {}


def test_a_worse_node_fails_what_was_learned(tmp_path):
    profile, _ = learn(node(), "ours")
    checks, _ = load_checks()
    worse = node(pci=node().pci[1:], gpus=node().gpus[1:], memory=Memory(1000 << 30))
    outcomes = judge(
        worse, checks.values(), {}, profile, Config(),
        Selection("sweep", frozenset({"gpu-count", "memory-size"})), date(2026, 12, 1),
    )  # fmt: skip
    assert [(o.check, len(o.findings)) for o in outcomes] == [("gpu-count", 1), ("memory-size", 1)]


def without(found, *checks):
    return {check for check, _ in found} & set(checks) == set()


def test_what_differs_within_the_node_is_left_out_and_named():
    odd = node(gpus=(gpu(0, ecc_enabled=False), *(gpu(i) for i in range(1, 8))))
    profile, left_out = learn(odd, "ours")
    assert ("gpu-modes", "ecc") not in values(profile)
    assert left_out == ["gpu-modes ecc: differs within the node: False, True"]


def test_what_was_not_measured_is_left_out_and_named():
    blind = node(gpus=None, memory=None, problems={"gpus": Problem("hung", "NVML hangs")})
    profile, left_out = learn(blind, "ours")
    found = values(profile)
    assert without(found, "gpu-memory", "gpu-temperature", "nvlink-links", "memory-size")
    assert "gpu-memory min_gib: NVML hangs" in left_out
    assert "memory-size min_gib: the host's memory was not read" in left_out
    assert found["gpu-count", "gpus"] == 8


def test_half_a_table_is_no_table():
    """Limits that only make sense together are left out together."""
    odd = node(
        gpus=tuple(gpu(i, temperature_slowdown_c=None) for i in range(8)),
        hcas=(
            Hca("mlx5_0", (Port(1, "ACTIVE", "LinkUp", 400.0, "InfiniBand"),)),
            Hca("mlx5_1", (Port(1, "ACTIVE", "LinkUp", 100.0, "Ethernet"),)),
        ),
    )
    assert without(values(learn(odd, "ours")[0]), "gpu-temperature", "ib-ports")


def test_a_node_without_gpus_teaches_no_gpu():
    profile, _ = learn(node(gpus=None, p2p=None, pci=(), hcas=()), "cpu")
    assert profile.match.pci_device_ids == ()
    assert {check for check, _ in values(profile)} == {
        "gpu-driver-version", "kernel-modules", "memory-size",
    }  # fmt: skip


def test_a_pcie_card_without_nvlink_teaches_no_nvlink():
    plain = tuple(gpu(i, nvlinks=None, fabric=None) for i in range(8))
    profile, left_out = learn(node(gpus=plain, p2p=()), "pcie")
    found = values(profile)
    assert without(found, "nvlink-links", "nvlink-speed", "nvlink-fabric", "nvlink-p2p")
    assert left_out == []


@pytest.mark.parametrize("name", ['a"b\\', "\x1b[31mred", "naïve × 8", "tab\there"])
def test_text_from_the_machine_cannot_break_the_file(tmp_path, name):
    odd = node(gpus=tuple(gpu(i, name=name) for i in range(8)), node=name)
    profile, _ = learn(odd, "ours")
    (tmp_path / "ours.toml").write_text(profile_text(profile, (f"from {name}\n[gpu-count]",)))
    assert name in load_profile("ours", [str(tmp_path)]).title
