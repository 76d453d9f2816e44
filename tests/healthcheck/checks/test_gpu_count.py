"""Visibility fails closed: seven of eight, none at all, and those that do not answer."""

from datetime import date

import pytest

from healthcheck.config import CheckSettings
from healthcheck.judge import judge_one
from healthcheck.model import (
    Baseline,
    Counter,
    Driver,
    Ending,
    Gpu,
    Job,
    NvmlError,
    PciDevice,
    Problem,
    Snapshot,
)
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


BUS = tuple(f"0000:{bus}:00.0" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df"))


def gpu(index, **facts):
    return Gpu(index, facts.pop("bus_id", BUS[index]), minor_number=index, **facts)


def pci(bus_id, **facts):
    return PciDevice(
        bus_id, "gpu", "0x10de", "0x2330", driver=facts.pop("driver", "nvidia"), **facts
    )


GPUS = tuple(gpu(index) for index in range(8))
PCI = tuple(pci(bus_id) for bus_id in BUS)
MISMATCH = Driver(init_error=NvmlError("nvmlInit", 18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH"))


def node(gpus=GPUS, devices=PCI, driver=Driver(), **facts):
    return Snapshot("n", 100.0, driver=driver, gpus=gpus, pci=devices, **facts)


def remembering(*bus_ids):
    counters = {f"{bus_id}|ecc_volatile_corrected": Counter(0, 1.0) for bus_id in bus_ids}
    return Baseline(counters=counters | {"mlx5_0/1|link_downed": Counter(0, 1.0)})


def test_eight_of_eight_pass():
    assert outcome("gpu-count", node(), gpus=8).outcome is Ending.PASSED
    assert outcome("gpu-visibility", node()).outcome is Ending.PASSED
    assert outcome("gpu-presence", node()).outcome is Ending.PASSED


def test_seven_of_eight_gpus_is_no_go_and_the_missing_one_is_named():
    found = outcome("gpu-count", node(gpus=GPUS[:7]), gpus=8).findings
    assert [(str(f.severity), f.subject, f.measured, f.expected) for f in found] == [
        ("fail", BUS[7], 7, 8)
    ]
    assert found[0].message.startswith(f"7 of 8 GPUs visible (missing {BUS[7]})")


def test_a_gpu_gone_from_bus_and_driver_is_named_from_the_last_look():
    sick = node(gpus=GPUS[1:], devices=PCI[1:], baseline=remembering(*BUS))
    found = outcome("gpu-count", sick, gpus=8).findings
    assert found[0].subject == BUS[0] and BUS[0] in found[0].message


def test_without_a_last_look_the_missing_gpu_still_fails():
    found = outcome("gpu-count", node(gpus=GPUS[1:], devices=PCI[1:]), gpus=8).findings
    assert found[0].subject == "node" and "missing" not in found[0].message


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        (Driver(library_missing=True), "libnvidia-ml.so.1"),
        (MISMATCH, "different versions"),
        (Driver(init_error=NvmlError("nvmlInit", 9, "X")), "kernel driver is not loaded"),
        (Driver(init_error=NvmlError("nvmlInit", 999, "NVML_ERROR_UNKNOWN")), "NVML_ERROR_UNKNOWN"),
    ],
)
def test_nvml_failing_as_a_whole_is_zero_gpus(driver, words):
    sick = node(gpus=(), driver=driver)
    for name, limits in (("gpu-count", {"gpus": 8}), ("gpu-visibility", {})):
        found = outcome(name, sick, **limits).findings
        assert [str(f.severity) for f in found] == ["fail"]
        assert words in found[0].message and found[0].measured == 0


def test_zero_of_everything_where_the_profile_expects_gpus_fails():
    bare = node(gpus=(), devices=(), driver=Driver(library_missing=True))
    assert told("gpu-count", bare, gpus=8) == [("fail", "node", "reboot")]


def test_more_gpus_than_the_profile_says_is_a_question_about_the_profile():
    assert [s for s, _, _ in told("gpu-count", node(), gpus=4)] == ["warn"]


def test_virtual_functions_and_other_vendors_do_not_count():
    extra = (
        pci("0000:1b:01.0", virtual=True),
        PciDevice("0000:02:00.0", "gpu", "0x1a03", "0x2000"),
    )
    seven = node(gpus=GPUS[:7], devices=(*PCI[:7], *extra))
    assert outcome("gpu-count", seven, gpus=8).findings[0].measured == 7


def test_a_hung_driver_leaves_the_count_to_the_bus():
    problems = {"gpus": Problem("hung", "nvmlX gave no answer", "nvmlX", None)}
    full = node(gpus=None, driver=None, problems=problems)
    assert outcome("gpu-count", full, gpus=8).outcome is Ending.UNMEASURED
    short = node(gpus=None, driver=None, devices=PCI[:7], problems=problems)
    assert [s for s, _, _ in told("gpu-count", short, gpus=8)] == ["fail"]


def test_nothing_read_is_unmeasured():
    blind = node(gpus=None, devices=None, driver=None)
    for name, limits in (("gpu-count", {"gpus": 8}), ("gpu-visibility", {}), ("gpu-presence", {})):
        assert outcome(name, blind, **limits).outcome is Ending.UNMEASURED


def test_a_dead_configuration_space_is_off_the_bus():
    devices = (pci(BUS[0], config_dead=True), *PCI[1:])
    sick = node(devices=devices, gpus=GPUS[1:])
    assert told("gpu-visibility", sick) == [("fail", BUS[0], "reboot")]


@pytest.mark.parametrize(
    ("code", "action"), [(15, "reboot"), (16, "reset-gpu"), (11, "reboot"), (999, "reboot")]
)
def test_a_handle_that_is_refused_names_the_gpu_by_its_place_on_the_bus(code, action):
    bad = gpu(3, bus_id="", handle_error=NvmlError("nvmlDeviceGetHandleByIndex", code, "E"))
    sick = node(gpus=(*GPUS[:3], bad, *GPUS[4:]))
    assert told("gpu-visibility", sick) == [("fail", BUS[3], action)]
    assert outcome("gpu-count", sick, gpus=8).findings[0].subject == BUS[3]


def test_a_gpu_lost_while_it_was_read_fails_once_and_is_judged_by_nobody_else():
    error = NvmlError("nvmlDeviceGetTemperature", 15, "NVML_ERROR_GPU_IS_LOST")
    sick = node(gpus=(gpu(0, errors=(error,)), *GPUS[1:]))
    assert told("gpu-visibility", sick) == [("fail", BUS[0], "reboot")]
    assert told("gpu-count", sick, gpus=8) == [("fail", BUS[0], "reboot")]
    found = outcome("nvlink-fabric", sick, required=True)
    assert BUS[0] not in {f.subject for f in found.findings}


def test_a_gpu_that_the_driver_does_not_list_is_named_with_its_binding():
    devices = (*PCI[:7], pci(BUS[7], driver=None))
    found = outcome("gpu-visibility", node(gpus=GPUS[:7], devices=devices)).findings
    assert found[0].subject == BUS[7] and "bound to no driver" in found[0].message
    passed_on = (*PCI[:7], pci(BUS[7], driver="vfio-pci"))
    assert [s for s, _, _ in told("gpu-visibility", node(gpus=GPUS[:7], devices=passed_on))] == [
        "info"
    ]


@pytest.mark.parametrize(
    ("code", "severities"), [(999, ["warn"]), (20, ["warn"]), (4, ["info"]), (2, []), (8, [])]
)
def test_other_failing_calls_are_told_by_what_they_mean(code, severities):
    sick = node(gpus=(gpu(0, errors=(NvmlError("nvmlDeviceGetSerial", code, "E"),)), *GPUS[1:]))
    assert [s for s, _, _ in told("gpu-visibility", sick)] == severities


def test_a_node_without_gpus_expects_none():
    bare = node(gpus=(), devices=(), driver=Driver(library_missing=True), modules=("ext4",))
    assert outcome("gpu-presence", bare).outcome is Ending.NOT_APPLICABLE
    assert outcome("gpu-visibility", bare).outcome is Ending.NOT_APPLICABLE


@pytest.mark.parametrize(
    "trace",
    [
        {"job": Job(7, gpu_minors=(0, 1))},
        {"job": Job(7, gpu_uuids=("GPU-1",))},
        {"modules": ("ext4", "nvidia")},
        {"baseline": remembering(*BUS)},
    ],
)
def test_no_gpu_where_something_speaks_of_gpus_is_no_go(trace):
    bare = node(gpus=(), devices=(), driver=Driver(library_missing=True), **trace)
    assert told("gpu-presence", bare) == [("fail", "node", "reboot")]


def test_a_device_of_the_job_that_no_gpu_has_is_no_go():
    job = Job(7, gpu_minors=(2, 9))
    found = outcome("gpu-presence", node(job=job)).findings
    assert len(found) == 1 and "/dev/nvidia9" in found[0].message
    assert outcome("gpu-presence", node(job=Job(7, gpu_minors=(2, 7)))).outcome is Ending.PASSED
