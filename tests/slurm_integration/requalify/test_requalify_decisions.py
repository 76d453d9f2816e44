"""The decisions, as tables: what Slurm and a look say, and what follows."""

import pytest
from making import NOW, REASON, drained, finding, looked, outcome, serving, sick, silent

from healthcheck.model import Action
from slurm_integration.requalify.book import MAX_EPISODES, Book, Record
from slurm_integration.requalify.door import reserved_nodes
from slurm_integration.requalify.learn import MAX_PASSES, judge, learn
from slurm_integration.requalify.review import review
from slurm_integration.requalify.rules import Rules
from slurm_integration.requalify.standing import Stand, span, stand_of, wants_reboot
from slurm_integration.sweep.model import Answer

HOUR = 3600.0
RULES = Rules(passes=3, spread_s=HOUR, flap_window_s=24 * HOUR, hold_s=4 * HOUR, max_strikes=3)
CHECKS = {"gpu-count", "clock"}


def record(**fields) -> Record:
    return Record(drained_at=NOW, stamp=NOW, reason=REASON, check="gpu-count", **fields)


def one(book: Book, *nodes, now: float = NOW, rules: Rules = RULES) -> Record:
    return review(book, nodes, now, rules).of("node01")


# --- where a node stands


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (drained(base="DOWN"), "DOWN"),
        (drained(base="UNKNOWN"), "UNKNOWN"),
        (drained(base="ERROR"), "ERROR"),
        (drained(flags=("MAINTENANCE",)), "maintenance"),
        (drained(flags=("RESERVED",)), "reserved"),
        (drained(flags=("FAIL",)), "failing"),
        (drained(flags=("REBOOT_ISSUED",)), "rebooting"),
        (drained(flags=("REBOOT_REQUESTED",)), "reboot"),
        (drained(flags=("NOT_RESPONDING",)), "respond"),
        (drained(flags=("POWERED_DOWN",)), "powered"),
        (drained(suffix="*"), "respond"),
        (drained(suffix="$"), "maintenance"),
        (drained(suffix="@"), "reboot"),
        (drained(suffix="~"), "powered"),
    ],
)
def test_a_node_that_somebody_is_at_work_on_stays_untouched_however_proven(node, words):
    proven = record(passes=(NOW, NOW + 1800, NOW + 3600))
    stands = stand_of(proven, node, NOW + 3600, RULES)
    assert stands.stand is Stand.UNTOUCHED
    assert words in stands.why


def test_a_node_in_an_active_reservation_stays_untouched():
    stands = stand_of(record(), drained(), NOW, RULES, reserved=True)
    assert stands.stand is Stand.UNTOUCHED


@pytest.mark.parametrize(
    ("fields", "at", "expected", "until"),
    [
        ({}, 0, Stand.DUE, None),
        ({"trouble": "still 7 of 8"}, 0, Stand.DUE, None),
        ({"passes": (NOW,)}, 10, Stand.WAITING, NOW + 1800),
        ({"passes": (NOW,)}, 1800, Stand.DUE, None),
        ({"passes": (NOW, NOW + 1800)}, 1801, Stand.WAITING, NOW + 3600),
        ({"passes": (NOW, NOW + 1800, NOW + 3600)}, 3600, Stand.PROVEN, None),
        ({"passes": (NOW, NOW + 1800, NOW + 3000)}, 3000, Stand.WAITING, NOW + 4800),
        ({"passes": (NOW, NOW + 1, NOW + 2, NOW + 3)}, 3, Stand.WAITING, NOW + 1803),
        ({"passes": (NOW, NOW + 1800, NOW + 3600)}, 3600 + 3601, Stand.DUE, None),
        ({"replace": True, "passes": (NOW, NOW + 1800, NOW + 3600)}, 3600, Stand.REPLACE, None),
        ({"strikes": 1}, 4 * HOUR - 1, Stand.HELD_OFF, NOW + 4 * HOUR),
        ({"strikes": 1}, 4 * HOUR, Stand.DUE, None),
        ({"strikes": 2}, 8 * HOUR - 1, Stand.HELD_OFF, NOW + 8 * HOUR),
        ({"strikes": 3}, 10_000 * HOUR, Stand.FLAPPING, None),
    ],
)
def test_the_way_back_step_by_step(fields, at, expected, until):
    stands = stand_of(record(**fields), drained(), NOW + at, RULES)
    assert (stands.stand, stands.until) == (expected, until)


@pytest.mark.parametrize("node", [drained(base="MIXED"), drained(base="ALLOCATED"),
                                  drained(flags=("COMPLETING",))])  # fmt: skip
def test_a_node_with_a_job_on_it_waits(node):
    assert stand_of(record(), node, NOW, RULES).stand is Stand.BUSY


@pytest.mark.parametrize(
    ("rules", "passes", "at", "expected"),
    [
        (Rules(passes=1, spread_s=0), (NOW,), 0, Stand.PROVEN),
        (Rules(passes=1, spread_s=60), (NOW,), 0, Stand.DUE),
        (Rules(passes=1, spread_s=60), (NOW, NOW + 60), 60, Stand.PROVEN),
        (Rules(passes=2, spread_s=0), (NOW,), 0, Stand.DUE),
        (Rules(passes=7, spread_s=1), tuple(NOW + n / 6 for n in range(7)), 1, Stand.PROVEN),
    ],
)
def test_odd_rules_still_lead_somewhere(rules, passes, at, expected):
    assert stand_of(record(passes=passes), drained(), NOW + at, rules).stand is expected


# --- what a look proves


@pytest.mark.parametrize(
    ("result", "clean", "words"),
    [
        (looked(), True, ""),
        (sick(), False, "7 of 8"),
        (silent(), False, "unreachable"),
        (silent(answer=Answer.TIMED_OUT), False, "timed-out"),
        (silent(answer=Answer.WRONG_HOST_KEY), False, "wrong-host-key"),
        (looked(detail="calls itself node99"), False, "node99"),
        (looked("go", outcome("clock")), False, "gpu-count, for which it was drained, did not run"),
        (looked("go", outcome("gpu-count", "not-applicable"), outcome("clock")), False, "ended as"),
        (looked("go", outcome("gpu-count", "unmeasured"), outcome("clock")), False, "unmeasured"),
        (looked("unknown", outcome("gpu-count"), outcome("clock", "timed-out")), False, "unknown"),
        (looked("go", outcome("gpu-count", "found", finding(severity="info")), outcome("clock")),
         True, ""),
        (looked("degraded", outcome("gpu-count"),
                outcome("clock", "found", finding(severity="warn"))), False, "clock"),
        (looked("go", outcome("gpu-count", "found", finding()), outcome("clock")), False, "7 of 8"),
        (looked("go", outcome("gpu-count", "found", finding(severity="info"))), False, "no check"),
    ],
)  # fmt: skip
def test_what_counts_as_a_clean_pass(result, clean, words):
    lesson = judge(result, "gpu-count", RULES, CHECKS)
    assert lesson.clean is clean
    assert words in lesson.trouble


def test_a_check_that_is_no_sweeps_check_leaves_it_to_the_whole_set():
    assert judge(looked(), "gpu-leftovers", RULES, CHECKS).clean
    assert judge(looked(), None, RULES, CHECKS).clean


def test_a_site_may_take_degraded_for_clean_but_not_where_the_same_check_still_warns():
    lenient = Rules(accept="degraded")
    warned = outcome("clock", "found", finding("none", "warn"))
    other = looked("degraded", outcome("gpu-count"), warned)
    assert judge(other, "gpu-count", lenient, CHECKS).clean
    assert not judge(other, "clock", lenient, CHECKS).clean


@pytest.mark.parametrize("report", [None, {}, {"verdict": "go"}, {"verdict": 7, "outcomes": []}])
def test_a_report_of_another_form_proves_nothing(report):
    result = looked()
    result = type(result)("node01", "ssh", Answer.REPORTED, report)
    assert not judge(result, "gpu-count", RULES, CHECKS).clean


def test_one_bad_look_begins_the_series_anew_and_an_interrupted_one_does_not():
    book = Book({"node01": record(passes=(NOW, NOW + 1800))})
    kept = learn(book, {"node01": silent(answer=Answer.INTERRUPTED)}, NOW + 3600, RULES, CHECKS)
    assert kept == book
    begun = learn(book, {"node01": sick()}, NOW + 3600, RULES, CHECKS).of("node01")
    assert begun.passes == ()
    assert begun.remedy is Action.REBOOT


def test_a_finding_that_needs_new_hardware_sticks_even_when_the_next_look_is_clean():
    book = learn(Book({"node01": record()}), {"node01": sick(action="replace")}, NOW, RULES, CHECKS)
    book = learn(book, {"node01": looked()}, NOW + 60, RULES, CHECKS)
    assert stand_of(book.of("node01"), drained(), NOW + 60, RULES).stand is Stand.REPLACE


def test_passes_are_bounded_and_keep_the_first():
    book = Book({"node01": record()})
    for number in range(3 * MAX_PASSES):
        book = learn(book, {"node01": looked()}, NOW + number, RULES, CHECKS)
    passes = book.of("node01").passes
    assert len(passes) == MAX_PASSES
    assert passes[0] == NOW


# --- what Slurm's view means


def test_a_new_drain_of_ours_is_taken_up_with_its_check_and_class():
    new = one(Book(), drained(reason="flightcheck: no-go gpu-row-remap: failed [job 4, replace]"))
    assert (new.check, new.replace, new.drained_at) == ("gpu-row-remap", True, NOW)


@pytest.mark.parametrize("node", [
    drained(reason="rack work, al"), drained(reason="Prolog error"), drained(base="DOWN",
    reason="Not responding"), serving(),
])  # fmt: skip
def test_what_is_not_ours_is_not_taken_up(node):
    assert one(Book(), node) == Record()


def test_a_drain_that_others_took_over_loses_its_proof():
    book = Book({"node01": record(passes=(NOW, NOW + 1800), looked_at=NOW)})
    assert one(book, drained(reason="mine now, al"), now=NOW + 1900).passes == ()


def test_a_resume_of_ours_is_kept_as_history():
    book = Book({"node01": record(passes=(1.0, 2.0, 3.0), resuming_at=NOW + 50)})
    ended = one(book, serving(), now=NOW + 60)
    assert ended.drained_at is None
    assert ended.resumed_at == NOW + 50
    episode = ended.history[0]
    assert (episode.by, episode.passes, episode.reason) == ("requalify", 3, REASON)


def test_a_resume_that_did_not_arrive_changes_nothing():
    book = Book({"node01": record(passes=(1.0,), resuming_at=NOW + 50)})
    same = one(book, drained(), now=NOW + 60)
    assert same.resuming_at is None
    assert same.passes == (1.0,)


@pytest.mark.parametrize(("again_after", "strikes"), [(60, 1), (24 * HOUR, 1), (24 * HOUR + 1, 0)])
def test_drained_again_soon_after_a_resume_is_a_strike(again_after, strikes):
    book = Book({"node01": record(resuming_at=NOW)})
    book = review(book, [serving()], NOW + 1, RULES)
    again = one(book, drained(at=NOW + again_after), now=NOW + again_after)
    assert again.strikes == strikes
    assert again.passes == ()


def test_drained_again_between_two_rounds_is_noticed_by_the_time_of_the_drain():
    book = Book({"node01": record(resuming_at=NOW + 10, passes=(1.0, 2.0))})
    again = one(book, drained(at=NOW + 400), now=NOW + 900)
    assert again.strikes == 1
    assert again.passes == ()
    assert again.history[0].by == "requalify"


def test_a_reboot_moves_the_reasons_time_and_is_no_new_drain():
    book = Book({"node01": record(reboots=(NOW,))})
    moved = drained(at=NOW + 300, reason=f"{REASON} : reboot issued")
    same = one(book, moved, now=NOW + 301)
    assert (same.drained_at, same.strikes, same.reboots) == (NOW, 0, (NOW,))
    later = drained(at=NOW + 600, reason=f"{REASON} : reboot issued : reboot complete")
    assert one(Book({"node01": same}), later, now=NOW + 601).drained_at == NOW


def test_strikes_add_up_and_are_forgiven_after_a_long_service():
    book, at = Book(), NOW
    for expected in range(4):
        assert one(book, drained(at=at), now=at).strikes == expected
        book = review(book, [drained(at=at)], at, RULES)
        book = review(book, [serving()], at + 10, RULES)
        at += 1000
    forgiven = review(book, [serving()], at + RULES.forgive_s, RULES)
    assert one(forgiven, drained(at=at + 31 * 86_400), now=at + 31 * 86_400).strikes == 0


def test_the_book_stays_bounded():
    book, at = Book(resumes=((NOW - 9999, "node01"), (NOW, "node02"))), NOW
    for _ in range(3 * MAX_EPISODES):
        book = review(book, [drained(at=at)], at, RULES)
        book = review(book, [serving()], at + 10, RULES)
        at += 100
    assert len(book.of("node01").history) == MAX_EPISODES
    assert review(book, [], at, RULES).records == {}
    assert [name for _, name in review(book, [], NOW, RULES).resumes] == ["node02"]


def test_passes_from_the_future_do_not_count():
    book = Book({"node01": record(passes=(NOW + 9000,))})
    assert one(book, drained(), now=NOW).passes == ()


# --- reboots and reservations


@pytest.mark.parametrize(
    ("fields", "rules", "expected"),
    [
        ({"trouble": "x", "remedy": Action.REBOOT}, Rules(reboot=True), True),
        ({"trouble": "x", "remedy": Action.REBOOT}, Rules(), False),
        ({"trouble": "x", "remedy": Action.RESET_GPU}, Rules(reboot=True), False),
        ({"trouble": "", "remedy": Action.REBOOT}, Rules(reboot=True), False),
        ({"trouble": "x", "remedy": Action.REBOOT, "reboots": (NOW - 60,)}, Rules(reboot=True),
         False),
        ({"trouble": "x", "remedy": Action.REBOOT, "reboots": (NOW - 9999,)}, Rules(reboot=True),
         True),
        ({"trouble": "x", "remedy": Action.REBOOT, "reboots": (1.0, 2.0)}, Rules(reboot=True),
         False),
    ],
)  # fmt: skip
def test_a_reboot_is_ours_only_where_configured_needed_and_not_done_twice(fields, rules, expected):
    assert wants_reboot(record(**fields), drained(), NOW, rules) is expected


def test_only_active_reservations_hold_their_nodes():
    text = (
        "ReservationName=maint StartTime=x Nodes=node[01-02] NodeCnt=2 Flags=MAINT State=ACTIVE\n"
        "ReservationName=later StartTime=x Nodes=node03 NodeCnt=1 Flags= State=INACTIVE\n"
        "ReservationName=licence StartTime=x Nodes=(null) NodeCnt=0 State=ACTIVE\n"
    )
    assert reserved_nodes(text) == {"node01", "node02"}
    assert reserved_nodes("No reservations in the system\n") == frozenset()
    with pytest.raises(ValueError, match="reservation"):
        reserved_nodes("ReservationName=x Nodes=node[01 State=ACTIVE\n")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (119, "119 s"), (3600, "60 min"), (86_400, "24 h"),
                           (172_800, "2 days")]
)  # fmt: skip
def test_spans_are_words(seconds, words):
    assert span(seconds) == words
