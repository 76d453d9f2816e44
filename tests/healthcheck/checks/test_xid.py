"""Xids: which belong to the hardware, which to the program, and what is asked of whom."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.checks._xid_rules import recovery_of
from healthcheck.checks.xid import Limits, xid
from healthcheck.host import host_at
from healthcheck.knowledge import xids
from healthcheck.knowledge.rules import RULES
from healthcheck.model import (
    Action,
    Baseline,
    Counter,
    Event,
    Gpu,
    Job,
    KernelEvent,
    KernelLog,
    Severity,
    Snapshot,
)
from healthcheck.runner import Request, run

NOW = 1_700_000_000.0
GPU = "0000:b3:00.0"
OTHER = "0000:27:00.0"
HOUR, DAY = 3600.0, 86_400.0
MESSAGES = {
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    45: "pid=1, name=python, Ch 00000010",
    149: "NETIR_LINK_EVT  Fatal   XC0 i0 Link 05 (0x004505c6)",
}


def event(code, ago=60.0, boot="now", subject=GPU, message=None, **more):
    message = MESSAGES.get(code, "") if message is None else message
    return Event("xid", NOW - ago, boot, code, subject, message, **more)


def line(code, sequence=1, message=None, subject=GPU, uptime=500.0):
    message = MESSAGES.get(code, "") if message is None else message
    return KernelEvent("xid", sequence, uptime, message, code, subject)


def node(*events, new=(), lost=0, accepted_at=0.0, gpus=None, counters=None):
    return Snapshot(
        node="n",
        taken_at=NOW,
        boot_id="now",
        uptime_s=1000.0,
        gpus=gpus,
        baseline=Baseline(
            taken_at=NOW - 60,
            boot_id="now",
            events=events,
            accepted_at=accepted_at,
            counters=counters or {},
        ),
        kernel_log=KernelLog(100, tuple(new), lost),
    )


def judge(snapshot, **limits):
    return list(xid(snapshot, msgspec.convert(limits, Limits)))


def the_one(snapshot, **limits):
    findings = judge(snapshot, **limits)
    assert len(findings) == 1, findings
    return findings[0]


FIRST_SIGHT = [
    (79, Severity.FAIL, Action.REBOOT),
    (167, Severity.FAIL, Action.REBOOT),
    (64, Severity.FAIL, Action.REPLACE),
    (157, Severity.FAIL, Action.REPLACE),
    (54, Severity.FAIL, Action.DRAIN),
    (63, Severity.WARN, Action.RESET_GPU),
    (156, Severity.WARN, Action.RESET_GPU),
    (94, Severity.WARN, Action.RESTART_APP),
    (38, Severity.WARN, Action.NONE),
    (92, Severity.WARN, Action.NONE),
    (121, Severity.WARN, Action.NONE),
    (142, Severity.WARN, Action.NONE),
    (1, Severity.WARN, Action.NONE),
    (168, Severity.WARN, Action.NONE),
    (9999, Severity.WARN, Action.NONE),
    (149, Severity.FAIL, Action.RESET_GPU),
    (154, Severity.FAIL, Action.RESET_GPU),
    *(
        (code, Severity.FAIL, Action.RESET_GPU)
        for code in (46, 48, 62, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 158, 169, 171, 172)
    ),
    *(
        (code, Severity.INFO, Action.RESTART_APP)
        for code in (8, 11, 13, 25, 31, 32, 39, 43, 45, 68, 69, 80, 86, 133, 139)
    ),
    *(
        (code, Severity.INFO, Action.NONE)
        for code in (37, 66, 67, 93, 106, 107, 137, 141, 152, 153, 160, 161)
    ),
]


@pytest.mark.parametrize(("code", "severity", "action"), FIRST_SIGHT)
def test_a_code_seen_once_is_judged_as_the_catalogue_says(code, severity, action):
    finding = the_one(node(new=[line(code)]))
    assert (finding.severity, finding.action, finding.subject) == (severity, action, GPU)
    assert f"Xid {code}" in finding.message
    assert finding.source


def test_every_code_of_the_catalogue_has_an_entry_and_a_decision():
    assert sorted(xids()) == list(range(1, 173))
    for code, entry in xids().items():
        assert entry.rule in RULES
        assert entry.ours
        finding = the_one(node(new=[line(code)]))
        if entry.category == "unused":
            assert finding.severity is Severity.WARN
        if entry.ours.startswith("drain"):
            assert finding.severity is Severity.FAIL
        if entry.ours.startswith(("none", "restart app;", "restart app")) and code != 94:
            assert finding.severity is Severity.INFO


def test_no_rule_stands_unused():
    assert {entry.rule for entry in xids().values()} == set(RULES)


def test_a_clean_log_says_nothing():
    assert judge(node()) == []


@pytest.mark.parametrize("code", [79, 48, 63, 94, 13])
def test_an_xid_from_before_the_reboot_passes(code):
    assert judge(node(event(code, 2 * HOUR, boot="before"))) == []


def test_an_accepted_xid_passes():
    assert judge(node(event(79, HOUR), accepted_at=NOW - 60)) == []


def test_a_hardware_xid_keeps_failing_until_then():
    finding = the_one(node(event(79, 5 * HOUR)))
    assert finding.severity is Severity.FAIL


def test_an_application_xid_is_told_once():
    assert judge(node(event(13, HOUR))) == []
    assert the_one(node(event(13, HOUR), new=[line(13)])).severity is Severity.INFO


def test_one_finding_a_gpu_and_code_with_its_count():
    events = [event(79, 600 - i, count=3) for i in range(20)]
    finding = the_one(node(*events))
    assert finding.measured == 60
    assert "60 times" in finding.message


def test_two_gpus_are_two_findings():
    findings = judge(node(event(79), event(79, subject=OTHER)))
    assert {finding.subject for finding in findings} == {GPU, OTHER}


@pytest.mark.parametrize(
    ("cause", "action"), [(79, Action.REBOOT), (48, Action.RESET_GPU), (95, Action.RESET_GPU)]
)
def test_consequences_stand_under_their_cause(cause, action):
    finding = the_one(
        node(
            new=[
                line(cause, 1, uptime=500.0),
                line(45, 2, uptime=500.1),
                line(154, 3, uptime=500.2),
                line(63, 4, uptime=501.0),
                line(43, 5, uptime=502.0),
            ]
        )
    )
    assert finding.message.startswith(f"Xid {cause} ")
    assert "with Xid 45, 154, 63, 43" in finding.message
    assert finding.action is action


def test_the_nvlink_chain_of_a_real_a100_names_its_root():
    who = "pid=22884, name=VLLM::Worker"
    finding = the_one(
        node(
            new=[
                line(45, 1, f"{who}, channel 0x00000010 caused by previous Xid 45", uptime=20.5994),
                line(45, 2, f"{who}, channel 0x00000011 caused by previous Xid 45", uptime=20.5995),
                line(
                    74,
                    3,
                    "pid=22884, name=VLLM::Worker_TP, NVLink: fatal error detected on link "
                    "8(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
                    uptime=20.5997,
                ),
                line(154, 4, uptime=20.6957),
            ]
        )
    )
    assert finding.message.startswith("Xid 74 ")
    assert "link 8" in finding.message
    assert "VLLM" not in finding.message
    assert finding.action is Action.RESET_GPU


def test_the_stronger_remedy_of_the_driver_wins():
    reboot = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    finding = the_one(node(event(48, 60), event(154, 59, message=reboot)))
    assert finding.message.startswith("Xid 48 ")
    assert finding.action is Action.REBOOT


def test_a_consequence_long_after_is_no_consequence():
    assert len(judge(node(event(79, 4 * HOUR), event(119, 60)))) == 2


def test_a_45_that_names_a_line_that_was_lost_is_judged_as_that_one():
    named = "pid=1, name=python, Ch 00000010 caused by previous Xid 79"
    finding = the_one(node(new=[line(45, message=named)]))
    assert finding.message.startswith("Xid 79 ")
    assert finding.action is Action.REBOOT


@pytest.mark.parametrize("code", [13, 31, 43, 68])
def test_unrelated_jobs_with_the_same_code_on_one_gpu_drain(code):
    finding = the_one(
        node(
            event(code, 3 * HOUR, job_id=1, uid=1001, boot="before"),
            event(code, 60, job_id=2, uid=1002),
        )
    )
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.DRAIN)


@pytest.mark.parametrize(
    "events",
    [
        [(13, 1, 1001), (13, 2, 1001)],  # two jobs of one user
        [(13, 1, 1001), (13, 1, 1001)],  # one job
        [(13, 1, 1001), (31, 2, 1002)],  # not the same suspicion
        [(13, None, None), (13, 2, 1002)],  # nobody knows whose it was
        [(45, 1, 1001), (45, 2, 1002)],  # 45 only follows
    ],
)
def test_less_than_that_never_drains(events):
    snapshot = node(
        *(event(c, 3 * HOUR - i * HOUR, job_id=j, uid=u) for i, (c, j, u) in enumerate(events)),
        new=[line(13)],
    )
    assert all(finding.severity is Severity.INFO for finding in judge(snapshot))


def test_unrelated_jobs_too_long_ago_do_not_drain():
    old, fresh = event(13, 30 * HOUR, job_id=1, uid=1), event(13, 60, job_id=2, uid=2)
    assert judge(node(old, fresh)) == []
    assert the_one(node(old, fresh), within_h=48).severity is Severity.FAIL


def test_several_gpus_alike_speak_against_the_software():
    events = [
        event(13, ago, subject=gpu, job_id=job, uid=1000 + job)
        for gpu in (GPU, OTHER)
        for job, ago in ((1, HOUR), (2, 60))
    ]
    findings = judge(node(*events))
    assert [finding.severity for finding in findings] == [Severity.WARN] * 2


def test_an_unrecognized_client_is_no_application_fault():
    text = "pid=1, name=a, MMU Fault: ENGINE GRAPHICS GPCCLIENT UNRECOGNIZED_CLIENT faulted @ 0x0"
    finding = the_one(node(new=[line(31, message=text)]))
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.REBOOT)


def test_a_contained_error_fails_on_repetition():
    finding = the_one(node(event(94, 3 * HOUR), event(94, 60)))
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.RESET_GPU)
    assert finding.limit == "repeat"


def test_a_contained_error_on_two_channels_at_once_is_one():
    assert the_one(node(event(94, 60.0), event(94, 59.5))).severity is Severity.WARN


def test_a_contained_error_before_the_reboot_counts_as_the_first():
    snapshot = node(event(94, 3 * HOUR, boot="before"), event(94, 60))
    assert the_one(snapshot).severity is Severity.FAIL


def test_contained_errors_on_two_gpus_or_a_day_apart_are_no_repetition():
    apart = node(event(94, 3 * HOUR, subject=OTHER), event(94, 60))
    assert {finding.severity for finding in judge(apart)} == {Severity.WARN}
    assert the_one(node(event(94, 25 * HOUR), event(94, 60))).severity is Severity.WARN


def test_repetition_follows_the_limit():
    snapshot = node(event(94, 3 * HOUR), event(94, 60))
    assert the_one(snapshot, repeat=3).severity is Severity.WARN


@pytest.mark.parametrize("code", [38, 44])
def test_a_watched_driver_error_asks_for_a_reboot_on_repetition(code):
    finding = the_one(node(event(code, HOUR), event(code, 60)))
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.REBOOT)


@pytest.mark.parametrize("code", [32, 80, 39, 86])
def test_a_repeated_engine_or_push_buffer_error_is_a_warning(code):
    assert the_one(node(event(code, HOUR), event(code, 60))).severity is Severity.WARN


@pytest.mark.parametrize(("code", "boots"), [(62, 3), (119, 3), (48, 2), (79, 2), (95, 2)])
def test_back_after_reboots_asks_for_a_new_gpu(code, boots):
    history = [event(code, (boots - i) * HOUR, boot=f"b{i}") for i in range(boots - 1)]
    assert the_one(node(*history, event(code, 60))).action is Action.REPLACE
    assert the_one(node(*history[1:], event(code, 60))).action is not Action.REPLACE


def test_back_after_a_reset_that_the_driver_confirmed_counts_as_a_life():
    done = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    before = [event(95, 3 * HOUR), event(154, 2 * HOUR, message=done)]
    assert the_one(node(*before, event(95, 60))).action is Action.REPLACE


def test_many_lines_in_one_boot_are_one_life():
    assert the_one(node(event(79, 3 * HOUR), event(79, 60))).action is Action.REBOOT


NVLINK5 = [
    ("NETIR_LINK_EVT  Fatal   XC0 i0 Link 05 (0x004505c6)", Severity.FAIL),
    ("RLW_REMAP Link Fatal XC1 i0 Link 07", Severity.FAIL),
    ("RLW_REMAP Nonfatal XC1 i0 Link 07", Severity.WARN),
    ("NVLink5 NON_FATAL link event on link 3", Severity.WARN),
    ("MSE non-fatal", Severity.WARN),
    ("pid=1, name=a Fatal b, RLW_REMAP Nonfatal XC1", Severity.WARN),
    ("SAW_MVB", Severity.WARN),
]


@pytest.mark.parametrize("code", range(144, 151))
@pytest.mark.parametrize(("text", "severity"), NVLINK5)
def test_nvlink5_errors_go_by_the_severity_word(code, text, severity):
    assert the_one(node(new=[line(code, message=text)])).severity is severity


def test_one_fatal_line_among_nonfatal_ones_decides():
    texts = ["X Nonfatal Link 01", "X Fatal Link 02", "X Nonfatal Link 03"]
    lines = [line(149, i, text, uptime=500 + i) for i, text in enumerate(texts)]
    assert the_one(node(new=lines)).severity is Severity.FAIL


def test_a_peer_hint_sends_the_operator_to_the_other_end():
    text = "NETIR_LINK_DOWN Fatal XC0 i0 Link 05 peer device"
    assert "other end" in the_one(node(new=[line(149, message=text)])).message


RECOVERIES = [
    ("0x1 (GPU Reset Required)", Severity.FAIL, Action.RESET_GPU),
    ("0x2 (Node Reboot Required)", Severity.FAIL, Action.REBOOT),
    ("0x3 (Drain P2P)", Severity.FAIL, Action.DRAIN),
    ("0x4 (Drain and Reset)", Severity.FAIL, Action.RESET_GPU),
    ("0x9 (Something New)", Severity.WARN, Action.NONE),
]


@pytest.mark.parametrize(("words", "severity", "action"), RECOVERIES)
def test_xid_154_is_what_the_driver_asks_for(words, severity, action):
    text = f"GPU recovery action changed from 0x0 (None) to {words}"
    finding = the_one(node(new=[line(154, message=text)]))
    assert (finding.severity, finding.action) == (severity, action)


def test_the_last_recovery_action_counts():
    done = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert judge(node(event(154, 60), event(154, 30, message=done))) == []
    assert the_one(node(event(154, 60, message=done), event(154, 30))).severity is Severity.FAIL


def test_an_unreadable_recovery_action_is_a_warning():
    assert the_one(node(new=[line(154, message="garbage")])).severity is Severity.WARN
    assert recovery_of("garbage") is None


def test_a_failed_remapping_after_a_double_bit_error_asks_for_a_new_gpu():
    gpus = (Gpu(0, GPU, remap_failed=True),)
    assert the_one(node(event(48), gpus=gpus)).action is Action.REPLACE


def test_a_remapping_that_is_done_is_no_longer_told():
    gpus = (Gpu(0, GPU, remap_pending=False),)
    assert judge(node(event(63, HOUR), gpus=gpus)) == []


def test_a_pending_remapping_with_new_uncorrectable_errors_fails():
    gpus = (Gpu(0, GPU, remap_pending=True, ecc_volatile_uncorrected=2),)
    counters = {f"{GPU}|ecc_volatile_uncorrected": Counter(0, NOW - HOUR)}
    finding = the_one(node(event(63), gpus=gpus, counters=counters))
    assert (finding.severity, finding.action) == (Severity.FAIL, Action.RESET_GPU)


def test_a_gpu_named_by_uuid_is_told_by_its_address():
    uuid = "GPU-6a7b8c9d-0001-0002-0003-000000000004"
    gpus = (Gpu(0, GPU, uuid=uuid),)
    finding = the_one(node(event(79, subject=uuid.lower()), gpus=gpus))
    assert finding.subject == GPU


def test_a_log_that_ran_over_is_told():
    finding = the_one(node(lost=40))
    assert (finding.severity, finding.measured) == (Severity.WARN, 40)


def test_the_message_says_when_and_for_which_job():
    message = the_one(node(event(79, job_id=4711, uid=7))).message
    assert "2023-11-14 22:12:20Z" in message
    assert "4711" in message


@pytest.mark.parametrize("values", [{"repeat": 1}, {"within_h": 0}, {"within_h": 9999}, {"x": 1}])
def test_impossible_limits_are_refused(values):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(values, Limits)


class Machine:
    """A recorded machine with a kernel log that grows, looked at by real prologs."""

    def __init__(self, root):
        self.root = root
        self.records = []
        for folder in ("dev", "proc/sys/kernel/random", "var/lib/flightcheck"):
            (root / folder).mkdir(parents=True)
        self.boot("boot-1")

    def boot(self, name):
        (self.root / "proc/sys/kernel/random/boot_id").write_text(name)
        (self.root / "proc/uptime").write_text("900.00 1.00")
        self.records = []
        self.say("Linux version 6.8.0")

    def say(self, text, prefix=4, at=None):
        sequence = len(self.records) + 1
        seconds = 20 * sequence if at is None else at
        self.records.append(f"{prefix},{sequence},{seconds * 1_000_000},-;{text}\n")
        (self.root / "dev/kmsg").write_text("".join(self.records))

    def prolog(self, job_id=1, uid=1000):
        request = Request(
            host_at(str(self.root)),
            "prolog",
            profile="cpu-only",
            job=Job(job_id, uid=uid),
            only=frozenset({"xid"}),
        )
        (outcome,) = run(request).report.outcomes
        return [(f.severity.value, f.action.value) for f in outcome.findings]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


OFF_BUS = "NVRM: Xid (PCI:0000:B3:00): 79, pid=1, name=python, GPU has fallen off the bus."
CONTAINED = "NVRM: Xid (PCI:0000:b3:00): 94, pid=1, name=python, Contained: CE User Channel (0x9)"
EXCEPTION = "NVRM: Xid (PCI:0000:b3:00): 13, Graphics Exception: ESR 0x5067b0=0x9"


def test_a_dead_gpu_fails_every_prolog_until_the_reboot(machine):
    assert machine.prolog() == []
    machine.say(OFF_BUS)
    assert machine.prolog(2) == [("fail", "reboot")]
    assert machine.prolog(3) == [("fail", "reboot")]
    machine.boot("boot-2")
    assert machine.prolog(4) == []
    machine.say(OFF_BUS)
    assert machine.prolog(5) == [("fail", "replace")]


def test_a_second_contained_error_is_found_by_a_later_prolog(machine):
    machine.say(CONTAINED)
    assert machine.prolog() == [("warn", "restart-app")]
    machine.say(CONTAINED)
    assert machine.prolog(2) == [("fail", "reset-gpu")]


def test_an_application_error_is_charged_to_the_job_that_ran(machine):
    machine.prolog(job_id=1, uid=1001)
    machine.say(EXCEPTION)
    assert machine.prolog(job_id=2, uid=1002) == [("info", "restart-app")]
    assert machine.prolog(job_id=3, uid=1003) == []
    machine.say(EXCEPTION)
    assert machine.prolog(job_id=4, uid=1004) == [("fail", "drain")]


def test_what_a_user_writes_to_the_kernel_log_drains_nobody(machine):
    machine.say(OFF_BUS, prefix=12)
    assert machine.prolog() == []


@given(
    st.lists(
        st.builds(
            Event,
            kind=st.just("xid"),
            at=st.floats(NOW - 8 * DAY, NOW + HOUR),
            boot_id=st.sampled_from(["now", "before", None]),
            code=st.one_of(
                st.none(), st.sampled_from([13, 31, 45, 79, 94, 149, 154]), st.integers()
            ),
            subject=st.sampled_from([GPU, OTHER, ""]),
            message=st.one_of(
                st.text(max_size=80),
                st.sampled_from(list(MESSAGES.values())),
                st.from_regex(r"caused by previous Xid \d{1,8}"),
            ),
            job_id=st.one_of(st.none(), st.integers(0, 5)),
            uid=st.one_of(st.none(), st.integers(0, 3)),
            count=st.integers(1, 10**6),
        ),
        max_size=12,
    )
)
def test_no_history_crashes_the_judgement(events):
    for finding in judge(node(*events)):
        assert finding.message
        assert finding.subject


def test_the_same_history_is_always_judged_alike():
    events = [event(79, 100), event(45, 99), event(48, 98), event(154, 97), event(13, 96)]
    assert judge(node(*events)) == judge(node(*reversed(events)))
