"""Heat, clocks and power: what slows a GPU down, and what all GPUs share."""

from datetime import date

import pytest

from healthcheck.config import CheckSettings
from healthcheck.judge import judge_one
from healthcheck.model import Ending, Gpu, NvmlError, Snapshot
from healthcheck.profile import Profile
from healthcheck.registry import load_checks

DAY = date(2026, 12, 1)


def outcome(name, node, **limits):
    """How a check ends on this node; limits as a site would set them."""
    declared = load_checks()[0][name]
    return judge_one(node, declared, Profile("p", "P"), CheckSettings(limits=limits), DAY)


def told(name, node, **limits):
    """(severity, subject, action) of all findings."""
    return [
        (str(f.severity), f.subject, str(f.action)) for f in outcome(name, node, **limits).findings
    ]


BUS = tuple(f"0000:{index:02x}:00.0" for index in range(16, 24))


def node(everyone=None, **one):
    """Eight GPUs with the same facts, the fourth with its own."""
    everyone = everyone or {}
    gpus = tuple(
        Gpu(index, bus_id, **(everyone | (one if index == 3 else {})))
        for index, bus_id in enumerate(BUS)
    )
    return Snapshot("n", 0.0, gpus=gpus)


IDLE = {"clock_event_reasons": (0x1,)}


@pytest.mark.parametrize(
    ("degrees", "found"),
    [
        (79, []),
        (80, [("warn", BUS[3], "none")]),
        (89, [("warn", BUS[3], "none")]),
        (90, [("fail", BUS[3], "drain")]),
    ],
)
def test_temperature_limits(degrees, found):
    warm = node({"temperature_c": 40}, temperature_c=degrees)
    assert told("gpu-temperature", warm, warn_c=80, fail_c=90) == found


def test_all_gpus_hot_is_one_finding_about_the_node():
    found = outcome("gpu-temperature", node({"temperature_c": 92}), warn_c=80, fail_c=90).findings
    assert [(str(f.severity), f.subject, f.limit) for f in found] == [("fail", "node", "fail_c")]


def test_a_warning_above_the_failure_is_refused():
    ended = outcome("gpu-temperature", node({"temperature_c": 40}), warn_c=90, fail_c=80)
    assert ended.outcome is Ending.ERROR and "warn_c" in ended.reason


@pytest.mark.parametrize(
    ("margin", "found"), [(4, []), (3, ["warn"]), (1, ["warn"]), (0, ["fail"]), (-3, ["fail"])]
)
def test_thermal_margin(margin, found):
    near = node({"temperature_margin_c": 50}, temperature_margin_c=margin)
    assert [severity for severity, _, _ in told("gpu-thermal-margin", near)] == found


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ((0x1,), []),
        ((0x4,), []),
        ((0x2 | 0x4 | 0x10,), []),
        ((0x48, 0x48, 0x48), ["fail"]),
        ((0x40, 0x0, 0x48), ["fail"]),
        ((0x40, 0x1, 0x1), ["warn"]),
        ((0x40,), ["warn"]),
        ((0x8, 0x8, 0x8), ["warn"]),
        ((0x20, 0x20, 0x20), ["warn"]),
        ((0x88, 0x88, 0x88), []),  # the power brake's own check tells it
    ],
)
def test_throttle_reasons_are_bits_and_must_last(samples, found):
    seen = told("gpu-throttle", node(IDLE, clock_event_reasons=samples))
    assert [severity for severity, _, _ in seen] == found


@pytest.mark.parametrize("mask", [0x40, 0x20, 0x8])
def test_all_gpus_slowed_at_once_is_one_finding(mask):
    seen = told("gpu-throttle", node({"clock_event_reasons": (mask,) * 3}))
    assert [subject for _, subject, _ in seen] == ["node"]


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        ((0x88, 0x88, 0x88), [("fail", BUS[3], "drain")]),
        ((0x80, 0x80, 0x1), [("fail", BUS[3], "drain")]),
        ((0x80, 0x1, 0x1), [("warn", BUS[3], "none")]),
        ((0x80,), [("warn", BUS[3], "none")]),
        ((0x40, 0x40, 0x40), []),
    ],
)
def test_power_brake_at_one_gpu(samples, found):
    assert told("gpu-power-brake", node(IDLE, clock_event_reasons=samples)) == found


def test_power_brake_at_all_gpus_is_one_finding_about_the_power_supply():
    found = outcome("gpu-power-brake", node({"clock_event_reasons": (0x88,) * 3})).findings
    assert [(str(f.severity), f.subject) for f in found] == [("fail", "node")]
    assert "all 8 GPUs" in found[0].message and "power supply" in found[0].message


CLOCKS = {"sm_clock_max_mhz": 1980, "sm_clock_mhz": 345, "utilization_percent": 0, **IDLE}


@pytest.mark.parametrize(
    ("one", "found"),
    [
        ({}, []),
        ({"utilization_percent": 100, "clock_event_reasons": (0x0,), "sm_clock_mhz": 1755}, []),
        ({"utilization_percent": 100, "clock_event_reasons": (0x0,)}, ["fail"]),
        ({"utilization_percent": 100, "clock_event_reasons": (0x1,)}, []),  # just became idle
        ({"utilization_percent": 100, "clock_event_reasons": (0x2,)}, ["warn"]),  # locked
        ({"utilization_percent": 60, "clock_event_reasons": (0x0,)}, []),
        ({"sm_clock_max_mhz": 1410}, ["warn"]),
    ],
)
def test_clocks_are_judged_under_load_only(one, found):
    seen = told("gpu-clocks", node(CLOCKS, **one), max_sm_mhz=1980)
    assert [severity for severity, _, _ in seen] == found


FED = {
    "power_limit_w": 700.0,
    "power_limit_default_w": 700.0,
    "power_limit_enforced_w": 700.0,
    "power_source": 0,
}
SHORT = NvmlError("nvmlDeviceGetPowerUsage", 8, "NVML_ERROR_INSUFFICIENT_POWER")


@pytest.mark.parametrize(
    ("one", "limits", "found"),
    [
        ({}, {}, []),
        ({}, {"limit_w": 700}, []),
        ({"power_limit_enforced_w": 350.0}, {}, [("fail", BUS[3], "drain")]),
        (
            {"power_limit_w": 400.0, "power_limit_enforced_w": 400.0},
            {"limit_w": 700},
            [("warn", BUS[3], "none")],
        ),
        (
            {"power_limit_w": 400.0, "power_limit_enforced_w": 400.0},
            {"limit_w": 400},
            [],
        ),
        ({"power_source": 2}, {}, [("fail", BUS[3], "drain")]),
        ({"power_source": 1}, {}, [("warn", BUS[3], "none")]),
        ({"errors": (SHORT,)}, {}, [("fail", BUS[3], "drain")]),
        ({"handle_error": SHORT}, {}, [("fail", BUS[3], "drain")]),
    ],
)
def test_power_limits_and_sources(one, limits, found):
    assert told("gpu-power-limit", node(FED, **one), **limits) == found


@pytest.mark.parametrize(
    "everyone", [{"power_source": 2}, {"errors": (SHORT,)}, {"power_limit_enforced_w": 350.0}]
)
def test_power_short_at_all_gpus_is_one_finding_about_the_node(everyone):
    assert told("gpu-power-limit", node(FED | everyone)) == [("fail", "node", "drain")]


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("gpu-temperature", {"warn_c": 80, "fail_c": 90}),
        ("gpu-thermal-margin", {}),
        ("gpu-throttle", {}),
        ("gpu-power-brake", {}),
        ("gpu-clocks", {"max_sm_mhz": 1980}),
        ("gpu-power-limit", {}),
        ("gpu-persistence", {}),
        ("gpu-modes", {}),
        ("gpu-firmware", {}),
        ("gpu-inforom", {}),
        ("gpu-memory", {"min_gib": 79}),
        ("nvlink-errors", {}),
        ("nvlink-speed", {"speed_mb_s": 26562}),
    ],
)
def test_what_no_gpu_supports_is_not_applicable(name, limits):
    assert outcome(name, node(), **limits).outcome is Ending.NOT_APPLICABLE
