"""A driver that hangs is evidence; a reading that broke is not."""

from datetime import date

import pytest

from healthcheck.config import CheckSettings
from healthcheck.judge import judge_one
from healthcheck.model import Driver, Ending, Gpu, PciDevice, Problem, Snapshot
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


GPUS = (Gpu(0, "0000:1b:00.0"), Gpu(1, "0000:43:00.0"))


def node(driver=None, problem=None, gpus=GPUS, **facts):
    problems = {} if problem is None else dict.fromkeys(("driver", "gpus", "p2p"), problem)
    gpus = None if problem else gpus
    return Snapshot("n", 0.0, driver=driver, gpus=gpus, problems=problems, **facts)


HUNG = Problem(
    "hung",
    "nvmlDeviceGetTemperature on 0000:1b:00.0 has given no answer for 4.0 s",
    "nvmlDeviceGetTemperature",
    "0000:1b:00.0",
)


def test_a_hung_call_fails_and_names_call_and_gpu():
    found = outcome("driver-responsive", node(problem=HUNG)).findings
    assert [(str(f.severity), f.subject, str(f.action)) for f in found] == [
        ("fail", "0000:1b:00.0", "reboot")
    ]
    assert "nvmlDeviceGetTemperature" in found[0].message and "4.0 s" in found[0].message


@pytest.mark.parametrize("name", ["gpu-ecc", "gpu-temperature", "nvlink-links", "gpu-persistence"])
def test_other_checks_of_a_hung_driver_time_out_and_do_not_pass(name):
    limits = {"gpu-temperature": {"warn_c": 80, "fail_c": 90}, "nvlink-links": {"links": 18}}
    ended = outcome(name, node(problem=HUNG), **limits.get(name, {})).outcome
    assert ended is Ending.TIMED_OUT


def test_a_library_that_does_not_load_in_time_is_no_evidence_against_the_driver():
    slow_disk = Problem("hung", "loading has given no answer", "loading libnvidia-ml.so.1", None)
    assert outcome("driver-responsive", node(problem=slow_disk)).outcome is Ending.UNMEASURED


@pytest.mark.parametrize("kind", ["failed", "denied", "absent", "skipped"])
def test_a_reading_that_broke_is_unmeasured(kind):
    ended = outcome("driver-responsive", node(problem=Problem(kind, "why")))
    assert (ended.outcome, ended.reason) == (Ending.UNMEASURED, "why")


def test_slow_answers_warn_with_the_figures():
    late = Problem("slow", "the nvml probe made 200 calls in 5.4 s and was not done")
    found = outcome("driver-responsive", node(problem=late)).findings
    assert str(found[0].severity) == "warn" and "200 calls in 5.4 s" in found[0].message


@pytest.mark.parametrize(("seconds", "ending"), [(0.2, "passed"), (3.0, "passed"), (3.1, "found")])
def test_the_whole_reading_has_a_limit(seconds, ending):
    ended = outcome("driver-responsive", node(Driver(calls=360, seconds=seconds)))
    assert str(ended.outcome) == ending
    assert all(str(f.severity) == "warn" and f.expected == 3.0 for f in ended.findings)


def test_a_node_without_the_library_has_no_driver_to_judge():
    ended = outcome("driver-responsive", node(Driver(library_missing=True), gpus=()))
    assert ended.outcome is Ending.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("version", "limits", "severities"),
    [
        ("550.54.15", {"minimum": "550.54.15"}, []),
        ("570.9.1", {"minimum": "570.10"}, ["fail"]),
        ("1000.1", {"minimum": "570.10"}, []),
        ("550.54.15", {"versions": ["550.54.15", "570.1"]}, []),
        ("550.54.14", {"versions": ["550.54.15", "570.1"]}, ["warn"]),
        ("535.1", {"minimum": "550", "versions": ["550.54.15"]}, ["fail"]),
    ],
)
def test_driver_versions_compare_as_numbers(version, limits, severities):
    found = told("gpu-driver-version", node(Driver(version=version)), **limits)
    assert [severity for severity, _, _ in found] == severities


def test_an_odd_driver_version_is_unmeasured():
    ended = outcome("gpu-driver-version", node(Driver(version="N/A")), minimum="550")
    assert ended.outcome is Ending.UNMEASURED


def test_without_a_wanted_version_there_is_nothing_to_judge():
    ended = outcome("gpu-driver-version", node(Driver(version="550.1")))
    assert ended.outcome is Ending.NOT_APPLICABLE


def test_a_minimum_that_is_no_version_is_refused():
    ended = outcome("gpu-driver-version", node(Driver(version="550.1")), minimum="newest")
    assert ended.outcome is Ending.ERROR and "newest" in ended.reason


def test_gpus_on_the_bus_and_none_in_nvml_leave_other_checks_unmeasured():
    pci = (PciDevice("0000:1b:00.0", "gpu", "0x10de", "0x2330"),)
    blind = node(Driver(library_missing=True), gpus=(), pci=pci)
    assert outcome("gpu-ecc", blind).outcome is Ending.UNMEASURED
    bare = node(Driver(library_missing=True), gpus=(), pci=())
    assert outcome("gpu-ecc", bare).outcome is Ending.NOT_APPLICABLE
