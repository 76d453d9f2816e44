"""Modes, firmware, memory, and what earlier jobs left on the job's own GPUs."""

from datetime import date

import msgspec
import pytest

from healthcheck.config import CheckSettings
from healthcheck.judge import judge_one
from healthcheck.model import Ending, Gpu, GpuProcess, Job, NvmlError, Snapshot
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


BUS = tuple(f"0000:{index:02x}:00.0" for index in range(16, 20))
GIB, MIB = 1 << 30, 1 << 20


def node(everyone=None, job=None, **one):
    """Four GPUs with the same facts, the second with its own."""
    gpus = tuple(
        Gpu(
            index,
            bus_id,
            **({"minor_number": index} | (everyone or {}) | (one if index == 1 else {})),
        )
        for index, bus_id in enumerate(BUS)
    )
    return Snapshot("n", 0.0, gpus=gpus, job=job)


def test_persistence_off_warns_and_all_at_once_is_one_finding():
    on = {"persistence_mode": True}
    assert told("gpu-persistence", node(on)) == []
    assert told("gpu-persistence", node(on, persistence_mode=False)) == [("warn", BUS[1], "none")]
    assert told("gpu-persistence", node({"persistence_mode": False})) == [("warn", "node", "none")]


MODES = {"ecc_enabled": True, "ecc_pending": True, "mig_enabled": False, "mig_pending": False}


@pytest.mark.parametrize(
    ("one", "limits", "found"),
    [
        ({}, {}, []),
        ({}, {"ecc": True, "mig": False}, []),
        ({"ecc_pending": False}, {}, [("warn", BUS[1], "reset-gpu")]),
        ({"mig_pending": True}, {}, [("warn", BUS[1], "reset-gpu")]),
        (
            {"ecc_enabled": False, "ecc_pending": True},
            {"ecc": True},
            [("fail", BUS[1], "reset-gpu")],
        ),
        (
            {"mig_enabled": True, "mig_pending": True},
            {"mig": False},
            [("fail", BUS[1], "reset-gpu")],
        ),
        ({"mig_enabled": True, "mig_pending": True}, {}, []),
    ],
)
def test_modes(one, limits, found):
    assert told("gpu-modes", node(MODES, **one), **limits) == found


def test_a_mode_wrong_on_all_gpus_is_one_finding():
    off = MODES | {"ecc_enabled": False, "ecc_pending": False}
    assert told("gpu-modes", node(off), ecc=True) == [("fail", "node", "reset-gpu")]


def test_firmware_differs_from_its_neighbours_of_the_same_kind():
    same = {"name": "H100", "vbios": "96.1"}
    assert told("gpu-firmware", node(same)) == []
    found = outcome("gpu-firmware", node(same, vbios="96.0")).findings
    assert [(f.subject, f.measured, f.expected) for f in found] == [(BUS[1], "96.0", "96.1")]
    assert told("gpu-firmware", node(same, name="T4", vbios="90.0")) == []


def test_two_gpus_that_differ_are_a_finding_about_the_node():
    gpus = node({"name": "H100", "vbios": "96.1"}, vbios="96.0")
    pair = msgspec.structs.replace(gpus, gpus=gpus.gpus[:2])
    (found,) = outcome("gpu-firmware", pair).findings
    assert found.subject == "node"
    assert "96.0 on 0000:" in found.message
    assert "96.1 on 0000:" in found.message
    assert outcome("gpu-firmware", pair, vbios=["96.0", "96.1"]).findings == ()


def test_firmware_is_one_that_the_site_allows():
    same = {"name": "H100", "vbios": "96.1"}
    assert told("gpu-firmware", node(same), vbios=["96.1", "96.2"]) == []
    assert len(told("gpu-firmware", node(same), vbios=["96.2"])) == 4


def test_a_corrupt_inforom_warns():
    good = {"inforom_valid": True}
    assert told("gpu-inforom", node(good)) == []
    assert told("gpu-inforom", node(good, inforom_valid=False)) == [("warn", BUS[1], "drain")]
    error = NvmlError("nvmlDeviceGetInforomImageVersion", 14, "NVML_ERROR_CORRUPTED_INFOROM")
    assert [s for s, _, _ in told("gpu-inforom", node(good, errors=(error,)))] == ["warn"]


def test_too_little_memory_fails_and_mig_is_left_alone():
    full = {"memory_total_bytes": 80 * GIB}
    assert told("gpu-memory", node(full), min_gib=79) == []
    assert told("gpu-memory", node(full, memory_total_bytes=40 * GIB), min_gib=79) == [
        ("fail", BUS[1], "drain")
    ]
    cut = node(full, memory_total_bytes=40 * GIB, mig_enabled=True)
    assert told("gpu-memory", cut, min_gib=79) == []


EMPTY = {"memory_used_bytes": 0, "processes": ()}
JOB = Job(4711, uid=1001, gpu_minors=(1,))


def held(mib, *processes):
    return {"memory_used_bytes": mib * MIB, "processes": processes}


FOREIGN = GpuProcess(77, 9 * GIB, 1002, "python3")
OWN = GpuProcess(78, 9 * GIB, 1001, "python3")


@pytest.mark.parametrize(
    ("one", "found"),
    [
        ({}, []),
        (held(1024), []),
        (held(1025), [("fail", BUS[1], "reset-gpu")]),
        (held(9216, FOREIGN), [("fail", BUS[1], "drain")]),
        (held(9216, OWN), [("warn", BUS[1], "none")]),
        (held(100, OWN), []),
        (held(100, GpuProcess(79, None, None, None)), []),
        (held(100, GpuProcess(80, MIB, 0, "dcgmproftester")), [("info", BUS[1], "none")]),
        (held(100, GpuProcess(81, MIB, 0, "nvidia-cuda-mps")), []),
        (held(100, GpuProcess(82, MIB, 1002, "Xorg", "graphics")), []),
    ],
)
def test_leftovers_on_the_jobs_own_gpu(one, found):
    assert told("gpu-leftovers", node(EMPTY, JOB, **one)) == found


def test_other_jobs_gpus_are_never_looked_at():
    elsewhere = Job(4711, uid=1001, gpu_minors=(0, 2))
    assert told("gpu-leftovers", node(EMPTY, elsewhere, **held(9216, FOREIGN))) == []


def test_without_a_jobs_uid_only_memory_is_judged():
    nameless = Job(4711, gpu_minors=(1,))
    assert told("gpu-leftovers", node(EMPTY, nameless, **held(100, FOREIGN))) == []


def test_the_leftover_is_named_so_that_it_can_be_ended():
    found = outcome("gpu-leftovers", node(EMPTY, JOB, **held(9216, FOREIGN))).findings[0]
    assert "process 77 (python3) of uid 1002" in found.message and "9216 MiB" in found.message


@pytest.mark.parametrize("job", [None, Job(4711, uid=1001)])
def test_no_job_or_no_gpu_is_not_applicable(job):
    assert outcome("gpu-leftovers", node(EMPTY, job)).outcome is Ending.NOT_APPLICABLE


def test_memory_and_processes_that_could_not_be_read_are_unmeasured():
    assert outcome("gpu-leftovers", node(None, JOB)).outcome is Ending.UNMEASURED


def test_leftovers_are_judged_around_jobs_only():
    assert load_checks()[0]["gpu-leftovers"].stages == ("prolog", "epilog")
