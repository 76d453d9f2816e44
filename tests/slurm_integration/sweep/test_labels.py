"""Streams of `srun --label`, in pieces of any size."""

import pytest

from slurm_integration.sweep.transports.labels import LabelledStreams

NONCE = "abc123"


def labelled(tasks: dict[int, bytes], piece: int = 1024) -> bytes:
    """What srun writes: pieces of all tasks in turn, each with its label, cut at newlines too."""
    queues = {}
    for task, text in tasks.items():
        lines = text.split(b"\n")
        queues[task] = [ln[i : i + piece] for ln in lines for i in range(0, len(ln) or 1, piece)]
    out = []
    while any(queues.values()):
        for task, queue in queues.items():
            if queue:
                out.append(b"%2d: " % task + queue.pop(0) + b"\n")
    return b"".join(out)


def answer(node: str, body: bytes) -> bytes:
    return f"<{NONCE} begin {node}>".encode() + body + f"<{NONCE} end 0>\n".encode()


@pytest.mark.parametrize("chunk", [1, 7, 1000, 1 << 20])
def test_mixed_pieces_of_many_tasks_become_whole_answers(chunk):
    bodies = {f"node{i:02d}": bytes([65 + i]) * (i * 1500 + 10) for i in range(12)}
    text = labelled({i: answer(n, b) for i, (n, b) in enumerate(bodies.items())}, 1024)
    streams = LabelledStreams(NONCE, 1 << 20)
    found = {}
    for start in range(0, len(text), chunk):
        for node, output, _ in streams.output(text[start : start + chunk]):
            assert node not in found
            found[node] = output
    assert {n: o.partition(b">")[2].partition(b"<")[0] for n, o in found.items()} == bodies
    assert list(streams.rest()) == []


def test_a_task_can_not_speak_for_another():
    streams = LabelledStreams(NONCE, 1 << 20)
    forged = answer("node01", b"x\n1: lies\n")
    found = list(streams.output(labelled({0: forged, 1: answer("node02", b"truth")})))
    assert {node for node, _, _ in found} == {"node01", "node02"}
    assert b"lies" not in {node: out for node, out, _ in found}["node02"]


def test_a_flood_of_one_task_is_cut_and_harms_nobody():
    streams = LabelledStreams(NONCE, 10_000)
    begin = f"<{NONCE} begin node01>".encode()
    found = list(streams.output(labelled({0: begin + b"x" * 50_000, 1: answer("node02", b"ok")})))
    sizes = {node: len(output) for node, output, _ in found}
    assert 10_000 < sizes["node01"] < 12_100
    assert "node02" in sizes


def test_unfinished_tasks_are_given_at_the_end():
    streams = LabelledStreams(NONCE, 1 << 20)
    assert list(streams.output(b"0: <abc123 begin node01>{\n")) == []
    assert [(n, o) for n, o, _ in streams.rest()] == [("node01", b"<abc123 begin node01>{")]


def test_srun_messages_are_kept_and_exit_codes_of_verdicts_are_not():
    streams = LabelledStreams(NONCE, 1 << 20)
    streams.errors(b"srun: error: node02: task 1: Exited with exit code 2\nsrun: err")
    streams.errors(b"or: Unable to allocate resources\n1: Traceback\n")
    assert list(streams.messages) == ["srun: error: Unable to allocate resources"]
    (found,) = streams.output(labelled({1: answer("node02", b"x")}))
    assert found[2] == b"Traceback\n"
