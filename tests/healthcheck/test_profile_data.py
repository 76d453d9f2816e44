"""The built-in profiles: complete, sourced, and made of figures that the checks take."""

import pytest

from healthcheck.profile import BUILTIN_DIR, CPU_ONLY, load_profile, profile_files
from healthcheck.registry import limits_of, load_checks

NAMES = sorted(profile_files([BUILTIN_DIR]))
IDS = {
    "a100-sxm-40": ("0x20b0",),
    "a100-sxm-80": ("0x20b2",),
    "a100-pcie": ("0x20f1", "0x20b5"),
    "h100-sxm": ("0x2330",),
    "h100-pcie": ("0x2331",),
    "h100-nvl": ("0x2321",),
    "h200-sxm": ("0x2335",),
    "b200-sxm": ("0x2901",),
    "gb200-tray": ("0x2941",),
    "l40s-pcie": ("0x26b9",),
    "cpu-only": (),
}
"""From the PCI ID repository."""


def profile(name):
    return load_profile(name, [BUILTIN_DIR])


def test_every_node_type_is_there():
    assert set(NAMES) == set(IDS)


@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_a_checks_and_becomes_its_limits(name):
    checks, broken = load_checks()
    assert broken == {}
    for table, figures in profile(name).checks.items():
        limits_of(checks[table], {field: figure.value for field, figure in figures.items()})


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_says_where_it_comes_from(name):
    for table, figures in profile(name).checks.items():
        for field, figure in figures.items():
            assert len(figure.source) >= 12, (table, field)
            assert "replaced" not in figure.source and "TODO" not in figure.source


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_matches_the_hardware_it_is_named_for(name):
    assert profile(name).match.pci_device_ids == IDS[name]
    assert len(profile(name).title) <= 50, "flightcheck profile list has 80 columns"


@pytest.mark.parametrize("name", [n for n in NAMES if n != CPU_ONLY])
def test_a_gpu_node_says_how_many_gpus_it_has_and_of_what_kind(name):
    found = profile(name)
    assert found.checks["gpu-count"]["gpus"].value == found.match.gpus
    assert {"gpu-memory", "gpu-power-limit", "kernel-modules"} - set(found.checks) <= (
        {"gpu-power-limit"} if name == "gb200-tray" else set()
    )


@pytest.mark.parametrize(
    ("name", "links", "ports", "rate"),
    [
        ("a100-sxm-40", 12, 8, 200),
        ("a100-sxm-80", 12, 8, 200),
        ("h100-sxm", 18, 8, 400),
        ("h200-sxm", 18, 8, 400),
        ("b200-sxm", 18, 8, 400),
        ("gb200-tray", 18, 4, 400),
    ],
)
def test_nvswitch_nodes_expect_their_links_and_ports(name, links, ports, rate):
    checks = profile(name).checks
    assert checks["nvlink-links"]["links"].value == links
    assert checks["nvlink-p2p"]["required"].value is True
    assert checks["ib-devices"]["hcas"].value == checks["ib-ports"]["active"].value == ports
    assert checks["ib-ports"]["rate_gb_s"].value == rate


def test_a_warning_comes_before_the_failure():
    for name in NAMES:
        figures = profile(name).checks.get("gpu-temperature")
        if figures:
            assert figures["warn_c"].value < figures["fail_c"].value < 95, name


def test_a_node_without_gpus_expects_nothing_of_gpus():
    assert profile(CPU_ONLY).checks == {}
