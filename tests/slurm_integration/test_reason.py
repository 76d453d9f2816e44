import pytest

from slurm_integration.reason import MAX_BYTES, as_reason, drain_reason, is_ours, take_apart


def test_the_form_that_operators_read():
    finding = ("gpu-count", "7 of 8 GPUs visible (missing 0000:b3:00.0)")
    assert drain_reason([finding], 4711) == (
        "flightcheck: no-go gpu-count: 7 of 8 GPUs visible (missing 0000:b3:00.0) [job 4711]"
    )


@pytest.mark.parametrize(
    ("count", "job", "replace", "tail"),
    [
        (1, None, False, ""),
        (1, 5, False, " [job 5]"),
        (3, 5, False, " (+2 more) [job 5]"),
        (2, None, True, " (+1 more) [replace]"),
        (1, 5, True, " [job 5, replace]"),
    ],
)
def test_tails(count, job, replace, tail):
    reason = drain_reason([("a", "b")] * count, job, replace=replace)
    assert reason == f"flightcheck: no-go a: b{tail}"
    parts = take_apart(reason)
    assert (parts.check, parts.job_id, parts.replace) == ("a", job, replace)


def test_parts_survive_what_slurm_appends():
    parts = take_apart("flightcheck: no-go xid: Xid 79 [job 7, replace] : Prolog error")
    assert (parts.check, parts.job_id, parts.replace) == ("xid", 7, True)


@pytest.mark.parametrize("message", ["x" * 5000, "é" * 500, "\U0001f525" * 200, "a b " * 300])
def test_long_messages_are_cut_and_the_tail_is_kept(message):
    reason = drain_reason([("gpu-count", message), ("x", "y")], 4711)
    assert len(reason.encode()) <= MAX_BYTES
    assert reason.startswith("flightcheck: no-go gpu-count: ")
    assert reason.endswith("… (+1 more) [job 4711]")


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("a\nb\r\nc", "a b c"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ('quote "it\'s" `now` \\', "quote it s now"),
        ("nul\x00bell\x07 del\x7f", "nul bell del"),
        ("c1\x9b31m", "c1 31m"),
        ("bidi\u202e evil", "bidi evil"),
        ("lone \udcff byte", "lone byte"),
        ("  many   spaces\t", "many spaces"),
    ],
)
def test_nothing_that_a_terminal_or_shell_would_act_on(dirty, clean):
    assert drain_reason([("a", dirty)]) == f"flightcheck: no-go a: {clean}"
    assert as_reason(dirty) == f"flightcheck: {clean}"


def test_as_reason_adds_prefix_and_job_once():
    once = as_reason("no-go a: b", 7)
    assert once == "flightcheck: no-go a: b [job 7]"
    assert as_reason(once, 7) == once
    assert as_reason(drain_reason([("a", "b")], 7, replace=True), 7).endswith("[job 7, replace]")


def test_as_reason_keeps_the_job_of_a_long_text():
    reason = as_reason("no-go a: " + "x" * 999, 7)
    assert reason.endswith("… [job 7]")
    assert len(reason.encode()) <= MAX_BYTES


def test_no_findings_and_empty_text_still_say_something():
    assert drain_reason([]) == "flightcheck: no-go unknown: no finding was given"
    assert as_reason("") == "flightcheck: no-go unknown: no finding was given"


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("flightcheck: x", True),
        ("flightcheck: x : Prolog error", True),
        ("flightcheck", False),
        ("Flightcheck: x", False),
        ("Prolog error", False),
        ("see flightcheck: x", False),
        ("", False),
        (None, False),
    ],
)
def test_ours_is_told_by_the_prefix(reason, ours):
    assert is_ours(reason) is ours


def test_reasons_edited_by_hand_are_taken_apart_without_a_crash():
    parts = take_apart("flightcheck: Bob says wait")
    assert (parts.check, parts.job_id, parts.replace) == (None, None, False)
