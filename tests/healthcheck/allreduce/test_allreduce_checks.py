"""What the two checks say about a result."""

from datetime import date

import msgspec
import pytest

from healthcheck.checks.allreduce_bandwidth import BandwidthLimits
from healthcheck.config import Config
from healthcheck.judge import judge_one
from healthcheck.model import Action, Ending, Gpu, Problem, Severity, Snapshot
from healthcheck.model.allreduce import (
    AllreduceEnd,
    AllreduceRank,
    AllreduceResult,
    BusBandwidth,
    LoadSample,
    PathRun,
    RankCompute,
    Suspect,
    WrongBits,
)
from healthcheck.profile import Figure, Profile
from healthcheck.registry import load_checks

GIB = 1 << 30
MEMBERS = tuple(
    AllreduceRank(r, gpu_index=r, uuid=f"GPU-{r:04x}", bus_id=f"0000:{r + 1:02x}:00.0")
    for r in range(8)
)
POINT = BusBandwidth(
    bytes=GIB, dtype="bfloat16", iterations=20, median_s=0.004, fastest_s=0.0039,
    busbw_gb_s=470.0, fastest_busbw_gb_s=480.0, mean_busbw_gb_s=469.0,
)  # fmt: skip
GOOD = AllreduceResult(
    end=AllreduceEnd.OK, backend="nccl", depth="quick", ranks=8, members=MEMBERS,
    cases=("sum int32 1021",), bandwidth=(POINT,),
)  # fmt: skip
WRONG = WrongBits(
    rank=3, where="contribution", op="sum", dtype="float32", case="sum float32 64", count=1,
    first_index=17, got=0x3F800001, expected=0x3F800000, xor=1,
)  # fmt: skip
REFERENCE = {"busbw_gb_s": Figure({"1G": 480.0}, "a test"), "ranks": Figure(8, "a test")}


def change(result=GOOD, **fields):
    return msgspec.structs.replace(result, **fields)


def outcome(check, result, figures=None, gpus=None, problems=None):
    checks, _ = load_checks()
    node = Snapshot("node01", 1e9, allreduce=result, gpus=gpus, problems=problems or {})
    profile = Profile("h100-sxm", "a test", checks={check: figures or {}})
    settings = Config().checks.get(check)
    from healthcheck.config import CheckSettings

    return judge_one(node, checks[check], profile, settings or CheckSettings(), date(2026, 1, 1))


def integrity(result, **more):
    return outcome("allreduce-integrity", result, **more)


def bandwidth(result, figures=REFERENCE, **more):
    return outcome("allreduce-bandwidth", result, figures, **more)


@pytest.mark.parametrize("check", ["allreduce-integrity", "allreduce-bandwidth"])
def test_a_look_without_the_test_is_not_judged(check):
    assert outcome(check, None).outcome is Ending.NOT_APPLICABLE
    skipped = outcome(check, None, problems={"allreduce": Problem("skipped", "passed 2 h ago")})
    assert (skipped.outcome, skipped.reason) == (Ending.NOT_APPLICABLE, "passed 2 h ago")
    broken = outcome(check, None, problems={"allreduce": Problem("failed", "a bug")})
    assert broken.outcome is Ending.UNMEASURED


def test_a_good_result_passes_both():
    assert integrity(GOOD).outcome is Ending.PASSED
    assert bandwidth(GOOD).outcome is Ending.PASSED


def test_a_result_that_compared_nothing_is_no_pass():
    assert integrity(change(cases=())).outcome is Ending.UNMEASURED


@pytest.mark.parametrize("cause", ["no-torch", "no-nccl", "interpreter", "untrusted", "connect"])
def test_an_installation_that_does_not_work_is_unmeasured(cause):
    result = change(end=AllreduceEnd.COULD_NOT_START, cause=cause, reason="why", bandwidth=())
    assert integrity(result).outcome is Ending.UNMEASURED
    assert "why" in integrity(result).reason
    assert bandwidth(result).outcome is Ending.UNMEASURED


def test_cuda_that_does_not_come_up_fails():
    result = change(
        end=AllreduceEnd.COULD_NOT_START, cause="no-cuda", reason="rank 2: CUDA error",
        suspects=(Suspect(2, "CUDA error"),),
    )  # fmt: skip
    (finding,) = integrity(result).findings
    assert (finding.severity, finding.subject) == (Severity.FAIL, "0000:03:00.0")
    assert finding.action is Action.DRAIN
    everywhere = change(result, suspects=tuple(Suspect(r, "x") for r in range(8)))
    assert integrity(everywhere).findings[0].subject == "node"


def test_a_start_that_fails_for_the_hardware_is_evidence():
    result = change(
        end=AllreduceEnd.COULD_NOT_START, cause="connect",
        reason="NCCL error: Cuda failure 'uncorrectable ECC error encountered'",
    )  # fmt: skip
    assert integrity(result).findings[0].severity is Severity.FAIL


def test_wrong_bits_fail_and_name_rank_gpu_index_xor_op_and_type():
    result = change(
        end=AllreduceEnd.CORRUPT, wrong=(WRONG,),
        suspects=(Suspect(3, "has wrong bits in its own data before they are sent"),),
    )  # fmt: skip
    (finding,) = integrity(result).findings
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.REPLACE)
    assert finding.subject == "0000:04:00.0"
    for word in ("rank 3", "GPU 3", "GPU-0003", "0000:04:00.0", "first at 17", "XOR 0x00000001",
                 "sum float32"):  # fmt: skip
        assert word in finding.message, finding.message


def test_wrong_bits_without_a_culprit_fail_the_node():
    wrong = tuple(change(WRONG, rank=r, where="result") for r in range(8))
    (finding,) = integrity(change(end=AllreduceEnd.CORRUPT, wrong=wrong)).findings
    assert (finding.severity, finding.subject) == (Severity.FAIL, "node")
    assert "8 of 8 ranks" in finding.message


def test_a_sum_that_differs_when_repeated_is_a_warning():
    wrong = (change(WRONG, where="repeat", xor=None, detail="digests a and b"),)
    (finding,) = integrity(change(end=AllreduceEnd.CORRUPT, wrong=wrong)).findings
    assert finding.severity is Severity.WARN


def test_a_hang_fails_with_rank_and_phase():
    result = change(
        end=AllreduceEnd.HUNG, phase="bandwidth 1G", reason="x",
        suspects=(Suspect(5, "is stopped"),), bandwidth=(),
    )  # fmt: skip
    (finding,) = integrity(result).findings
    assert (finding.severity, finding.subject) == (Severity.FAIL, "0000:06:00.0")
    assert "bandwidth 1G" in finding.message
    assert bandwidth(result).outcome is Ending.NOT_APPLICABLE
    assert integrity(change(result, suspects=())).findings[0].subject == "node"


@pytest.mark.parametrize(
    ("why", "severity"),
    [("was killed by SIGKILL in 'connect'", Severity.WARN),
     ("failed in 'x': CUDA error: uncorrectable ECC error encountered", Severity.FAIL)],
)  # fmt: skip
def test_a_death_is_evidence_only_where_the_hardware_is_named(why, severity):
    result = change(end=AllreduceEnd.DIED, suspects=(Suspect(1, why),), reason=why)
    (finding,) = integrity(result).findings
    assert finding.severity is severity


def test_a_test_that_ran_out_of_time_is_unmeasured():
    result = change(end=AllreduceEnd.UNFINISHED, reason="time was up")
    assert integrity(result).outcome is Ending.UNMEASURED
    assert bandwidth(result).outcome is Ending.UNMEASURED


@pytest.mark.parametrize(
    ("end", "confirmed", "word"),
    [(AllreduceEnd.OK, False, "was not tested"), (AllreduceEnd.HUNG, False, "hung")],
)
def test_a_path_that_was_not_taken_is_never_passed(end, confirmed, word):
    path = PathRun("nic", confirmed, "not confirmed by NCCL's log", end, "reason")
    (finding,) = integrity(change(paths=(path,))).findings
    assert finding.severity is Severity.WARN
    assert word in finding.message


@pytest.mark.parametrize(
    ("busbw", "severity"),
    [(480.0, None), (454.0, None), (453.0, Severity.WARN), (432.1, Severity.WARN),
     (431.9, Severity.FAIL), (10.0, Severity.FAIL)],
)  # fmt: skip
def test_bandwidth_against_the_reference(busbw, severity):
    done = bandwidth(change(bandwidth=(change(POINT, busbw_gb_s=busbw),)))
    if severity is None:
        assert done.outcome is Ending.PASSED
        return
    (finding,) = done.findings
    assert (finding.severity, finding.expected, finding.source) == (severity, 432.0, "a test")
    assert "432.0 (0.9 × 480)" in finding.message


def test_a_reference_for_another_number_of_gpus_says_nothing():
    slow = change(POINT, busbw_gb_s=100.0)
    assert bandwidth(change(ranks=4, bandwidth=(slow,))).outcome is Ending.PASSED


def test_a_larger_message_is_judged_by_the_next_smaller_reference():
    limits = BandwidthLimits(busbw_gb_s={"1G": 450.0, "8G": 470.0, "256M": 400.0})
    assert limits.reference(1 << 20) is None
    assert limits.reference(2 * GIB) == 450.0
    assert limits.reference(16 * GIB) == 470.0


def test_figures_of_cpus_are_not_held_against_gpus_references():
    slow = change(POINT, busbw_gb_s=0.1, usual_gb_s=10.0, usual_runs=9)
    assert bandwidth(change(backend="gloo", bandwidth=(slow,))).outcome is Ending.PASSED


@pytest.mark.parametrize(("runs", "found"), [(2, False), (3, True)])
def test_a_node_slower_than_it_used_to_be_is_warned_about(runs, found):
    point = change(POINT, busbw_gb_s=400.0, usual_gb_s=470.0, usual_runs=runs)
    done = bandwidth(change(bandwidth=(point,)), figures={})
    assert bool(done.findings) is found
    assert all(f.severity is Severity.WARN for f in done.findings)


def test_the_slowest_rank_is_named():
    point = change(POINT, slowest_rank=6, late_s=0.002)
    (finding,) = bandwidth(change(bandwidth=(point,))).findings
    assert finding.subject == "0000:07:00.0"
    assert "rank 6 (GPU 6" in finding.message
    slow = change(point, busbw_gb_s=100.0)
    assert "slowest: rank 6" in bandwidth(change(bandwidth=(slow,))).findings[0].message


def test_a_gpu_that_computes_slower_than_the_others_is_named():
    compute = tuple(RankCompute(r, "bfloat16", 4096, 0.002 if r == 4 else 0.001) for r in range(8))
    (finding,) = bandwidth(change(compute=compute)).findings
    assert finding.subject == "0000:05:00.0"


def test_instruments_under_load():
    gpus = (Gpu(0, "0000:01:00.0", pcie_generation_max=5, pcie_width_max=16),)
    samples = tuple(
        LoadSample("0000:01:00.0", 0.5 * n, clock_event_reasons=0x88, pcie_generation=3,
                   pcie_width=8)
        for n in range(3)
    )  # fmt: skip
    found = bandwidth(change(samples=samples), gpus=gpus).findings
    assert [f.severity for f in found] == [Severity.WARN] * 3
    assert any("power brake" in f.message for f in found)
    idle = tuple(change(s, clock_event_reasons=0x4, pcie_generation=5, pcie_width=16)
                 for s in samples)  # fmt: skip
    assert bandwidth(change(samples=idle), gpus=gpus).outcome is Ending.PASSED


def test_one_gpu_has_nobody_to_reduce_with():
    assert bandwidth(change(ranks=1)).outcome is Ending.NOT_APPLICABLE


@pytest.mark.parametrize(
    "wrong",
    [
        {"busbw_gb_s": {"1X": 3.0}},
        {"fail_fraction": 1.5},
        {"busbw_gb_s": {"1G": -1.0}},
        {"warn_fraction": 0.5},
    ],
)
def test_impossible_limits_are_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, BandwidthLimits)
