"""The silence before Slurm ended a job: what counts as one, and who began it."""

import time

import pytest

from epilog.scan import Source
from epilog.scan.prefix import PrefixParser
from epilog.scan.silence import TAIL, silence

END = 1_796_100_000.0


def line(at, words="step done", prefix="[rank{}]: ", rank=0):
    return (
        f"{prefix.format(rank)}{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))} {words}\n"
    )


def heard(text, name="job.log", **source):
    return silence([(Source(name, None, **source), text.encode())], END, PrefixParser())


def every(seconds, begin, end, rank=0, **words):
    return "".join(line(END + at, rank=rank, **words) for at in range(begin, end + 1, seconds))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no time stands here\n" * 100,
        line(END - 4000) * 4,  # too few to know how long its pauses are
        every(20, -1000, -40),  # it worked
        every(20, -1000, -200),  # a silence, but a short one
        every(900, -9000, -1800),  # a job of long pauses
        "\x00\xff\n[rank" * 100,
    ],
)
def test_nothing_is_said_of_a_job_that_worked_or_told_nothing(text):
    assert heard(text) == []


def test_the_answer_to_slurms_signal_is_no_sign_of_life():
    (sight,) = heard(every(20, -2000, -1000) + line(END - 3, "received SIGTERM, shutting down"))
    assert sight.fields == {"silent_s": "1000", "pause_s": "20"}
    assert sight.at == END - 1000
    assert sight.rank is None


def test_who_stopped_before_all_others_is_named():
    text = "".join(every(20, -4000, -3000 if r != 2 else -3400, rank=r) for r in range(4))
    hung, first = heard(text)
    assert hung.signature == "silence"
    assert (first.signature, first.rank, first.fields) == ("silence-first", 2, {"lead_s": "400"})


@pytest.mark.parametrize("late", [(), (0, 1), (0, 1, 2)])
def test_half_of_the_ranks_or_none_is_nobody(late):
    text = "".join(every(20, -4000, -3400 if r in late else -3000, rank=r) for r in range(4))
    assert [sight.signature for sight in heard(text)] == ["silence"]


def test_a_rank_that_seldom_writes_is_not_taken_for_a_silent_one():
    text = "".join(every(20, -4000, -3000, rank=r) for r in range(3))
    assert len(heard(text + every(300, -4000, -3300, rank=3))) == 1


def test_tasks_with_a_file_each_are_told_apart_by_its_name():
    files = [
        (
            Source(f"task-{task}.out", None, label=task),
            every(20, -4000, -3400 if task == 1 else -3000, prefix="").encode(),
        )
        for task in range(3)
    ]
    _, first = silence(files, END, PrefixParser())
    assert (first.label, first.file) == (1, "task-1.out")


def test_the_cut_first_line_of_a_tail_is_left_out():
    text = "9" * 20 + " torn\n" + every(20, -2000, -1000)
    padded = ("x" * (TAIL - len(text)) + text).encode()
    assert len(silence([(Source("job.log", None), padded)], END, PrefixParser())) == 1
