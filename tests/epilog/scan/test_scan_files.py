import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epilog.model import Role
from epilog.scan import Settings, Source, scan_files
from epilog.scan.matcher import FindMatcher, HyperscanMatcher, literal_table
from epilog.scan.tracebacks import CHAINED, HEADER
from epilog.signatures import load

CATALOGUE = load()

CAUGHT = (
    "[rank{r}]:[E810 03:14:10.5 ProcessGroupNCCL.cpp:683] [Rank {r}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={s}, OpType=ALLREDUCE, NumelIn=80, NumelOut=4977423360, "
    "Timeout(ms)=600000) ran for 600003 milliseconds before timing out.\n"
)


def only(result, signature):
    return [e for e in result.evidence if e.signature == signature]


def test_ansi_colours_do_not_hide_a_wording(scan):
    (seen,) = scan("\x1b[1;91mRuntimeError: \x1b[0mCUDA error: uncorrectable ECC error "
                   "encountered \x1b]8;;http://x\x07link\x1b]8;;\x07\n").evidence  # fmt: skip
    assert seen.klass == "hardware/gpu-ecc"
    assert seen.text == "RuntimeError: CUDA error: uncorrectable ECC error encountered link"


def test_control_characters_never_reach_the_text(scan):
    (seen,) = scan(b"GPU is lost \x00\x07\x9b31m\xe2\x80\xae\xff end\n").evidence
    assert seen.text.isprintable()
    assert seen.text.endswith("end")


def test_of_a_progress_bar_the_last_segment_with_the_wording_counts(scan):
    (seen,) = scan("10% loss=nan\r20% loss=nan\r30% loss=1.0\r").evidence
    assert (seen.line, seen.text) == (1, "20% loss=nan")


def test_advice_is_no_evidence_but_the_line_it_ends_is(scan):
    result = scan(
        "(raylet) The actor is dead because its worker process has died. There are some potential "
        "root causes. (1) The process is killed by SIGKILL by OOM killer (3) SIGSEGV GPU is lost\n"
    )
    assert [e.signature for e in result.evidence] == ["ray-worker-died"]
    assert "SIGSEGV" not in result.evidence[0].text


def test_the_specific_signature_silences_the_general_one(scan):
    result = scan("[rank5]: RuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert [(e.signature, e.rank) for e in result.evidence] == [("cuda-illegal-access", 5)]


def test_interleaved_tracebacks_are_told_apart(scan):
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        "[rank2]: Traceback (most recent call last):\n"
        '[rank1]:   File "/project/a.py", line 11, in <module>\n'
        '[rank2]:   File "/project/b.py", line 22, in <module>\n'
        "[rank1]:     work()\n"
        "[rank2]: mylib.errors.ShardBroken: shard 7\n"
        "healthy line of another writer\n"
        "[rank1]: ValueError: bad batch\n"
    )
    seen = [(e.line, e.rank, e.fields["type"], e.fields["frame"]) for e in scan(text).evidence]
    assert seen == [
        (6, 2, "mylib.errors.ShardBroken", "/project/b.py:22"),
        (8, 1, "ValueError", "/project/a.py:11"),
    ]


def test_an_exception_raised_while_another_was_handled_is_marked(scan):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/project/a.py", line 1\nKeyError: 3\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/project/a.py", line 2\nValueError: no\n'
    )
    seen = [(e.fields["type"], e.fields.get("chained")) for e in scan(text).evidence]
    assert seen == [("KeyError", None), ("ValueError", "1")]


def test_a_traceback_that_never_ends_is_given_up(scan):
    text = "Traceback (most recent call last):\n" + "  x\n" * 5000 + "GPU is lost\n"
    assert [(e.line, e.signature) for e in scan(text).evidence] == [(5002, "cuda-gpu-lost")]


PG = "[PG ID 0 PG GUID 0(default_pg) Rank {r}]"


@pytest.mark.parametrize(
    ("line", "work"),
    [
        (CAUGHT.format(r=3, s=7), (3, "unknown", None, 6, "ALLREDUCE", 600000)),
        ("[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, "
         "TensorShape=[1024, 2], Timeout(ms)=1800000) ran for 1800001 milliseconds",
         (3, "unknown", None, None, "BROADCAST", 1800000)),
        ("[PG 0 (default_pg) Rank 3] Timeout at NCCL work: 7, last enqueued NCCL work: 9, last "
         "completed NCCL work: 6.", (3, "0(default_pg)", 9, 6, None, None)),
        (f"{PG.format(r=3)} Exception (either an error or timeout) detected by watchdog at work: "
         "7, last enqueued NCCL work: 9, last completed NCCL work: 6.",
         (3, "0(default_pg)", 9, 6, None, None)),
        (f"{PG.format(r=3)}  failure detected by watchdog at work sequence id: 7 PG status: last "
         "enqueued work: 9, last completed work: 6", (3, "0(default_pg)", 9, 6, None, None)),
        ("[rank3]:[E810 03:14:10.5 ProcessGroupNCCL.cpp:1] [PG ID 2 PG GUID 3(mesh_tp) Rank 1] "
         "Received a dump signal due to a collective timeout from  rank 7 and we will try our "
         "best to dump the debug info. Last enqueued NCCL work: -1, last completed NCCL work: -1.",
         (3, "3(mesh_tp)", -1, -1, None, None)),
        ("[rank3]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 3] Received a global timeout from "
         "another rank and will start to dump the debug info. Last enqueued NCCL work: 9, last "
         "completed NCCL work: 6.", (3, "0", 9, 6, None, None)),
    ],
)  # fmt: skip
def test_every_time_out_wording_gives_the_ranks_place_in_its_group(scan, line, work):
    (seen,) = scan(line + "\n").works
    assert (
        seen.rank, seen.group, seen.enqueued, seen.completed, seen.op, seen.timeout_ms
    ) == work  # fmt: skip


def test_the_watchdogs_line_is_joined_to_the_group_that_names_its_sequence_number(scan):
    text = (
        CAUGHT.format(r=3, s=7)
        + "[rank3]:[E810 03:14:10.6 X.cpp:1] [PG ID 2 PG GUID 3(mesh_tp) Rank 1]  failure detected "
        "by watchdog at work sequence id: 7 PG status: last enqueued work: 8, last completed "
        "work: 6\n"
        "[rank3]:[E810 03:14:10.7 X.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 3]  failure "
        "detected by watchdog at work sequence id: 41 PG status: last enqueued work: 41, last "
        "completed work: 40\n"
    )
    seen = [(w.group, w.enqueued, w.op, w.numel_out) for w in scan(text).works]
    assert seen == [("0(default_pg)", 41, None, None), ("3(mesh_tp)", 8, "ALLREDUCE", 4977423360)]


def test_a_rank_within_a_subgroup_is_not_taken_for_a_global_rank(scan):
    line = (
        "[PG ID 2 PG GUID 3(mesh_tp) Rank 1] Timeout at NCCL work: 7, last enqueued NCCL work: 9, "
        "last completed NCCL work: 6."
    )
    result = scan(line + "\n")
    assert result.works == ()
    assert [e.rank for e in result.evidence] == [None]


TORCHRUN = """\
{p}Failures:
{p}[1]:
{p}  time      : 2026-08-10_03:05:12
{p}  host      : node03
{p}  rank      : 8 (local_rank: 0)
{p}  exitcode  : -15 (pid: 17)
{p}Root Cause (first observed failure):
{p}[0]:
{p}  time      : 2026-08-10_03:05:11
{p}  host      : node02
{p}  rank      : 7 (local_rank: 7)
{p}  exitcode  : {code} (pid: 26)
"""


@pytest.mark.parametrize("prefix", ["", "3: ", "[default0]:"])
def test_torchruns_table_gives_exits_places_and_evidence(scan, prefix):
    result = scan(TORCHRUN.format(p=prefix, code=-11))
    assert [(x.rank, x.node, x.exit_code, x.signal, x.at) for x in result.exits] == [
        (8, "node03", None, 15, 1786331112.0),
        (7, "node02", None, 11, 1786331111.0),
    ]
    assert [(p.rank, p.host, p.local_rank, p.pid) for p in result.places] == [
        (7, "node02", 7, 26), (8, "node03", 0, 17)
    ]  # fmt: skip
    segfault = result.evidence[-1]
    assert (segfault.klass, segfault.role, segfault.rank) == ("user/segfault", Role.ROOT, 7)
    assert segfault.fields["first"] == "1"
    assert "first" not in result.evidence[0].fields


@pytest.mark.parametrize(
    ("line", "exits"),
    [
        ("srun: error: node07: tasks 3-5,8: Exited with exit code 1",
         [(None, "node07", 1, None, label) for label in (3, 4, 5, 8)]),
        ("srun: error: node07: task 3: Killed", [(None, "node07", None, 9, 3)]),
        ("srun: error: node07: task 3: Segmentation fault (core dumped)",
         [(None, "node07", None, 11, 3)]),
        ("srun: error: node[07-08]: tasks 0-1: Terminated",
         [(None, None, None, 15, 0), (None, None, None, 15, 1)]),
        ("mpirun noticed that process rank 7 with PID 9 on node node01 exited on signal 9 "
         "(Killed).", [(7, "node01", None, 9, None)]),
        ("  Process name: [[2886,1],6]\n  Exit code:    3", [(6, None, 3, None, None)]),
        ("=   RANK 3 PID 1234 RUNNING AT c001\n=   KILLED BY SIGNAL: 11 (Segmentation fault)",
         [(3, "c001", None, 11, None)]),
        ("[rank: 3] Child process with PID 4711 terminated with code -9. Forcefully",
         [(3, None, None, 9, None)]),
        ("srun: error: node07: tasks 9999999999999999999: Killed", []),
    ],
)  # fmt: skip
def test_task_ends_of_every_launcher(scan, line, exits):
    seen = [(x.rank, x.node, x.exit_code, x.signal, x.label) for x in scan(line + "\n").exits]
    assert seen[: len(exits)] == exits


def test_a_list_of_a_million_tasks_is_bounded(scan):
    assert len(scan("srun: error: node07: tasks 0-999999999: Killed\n").exits) == 4096


def test_only_the_largest_communicator_gives_global_ranks(scan):
    line = (
        "node0{h}:9:10 [0] NCCL INFO comm 0x5 rank {r} nranks {n} cudaDev 0 nvmlDev {h} busId 1 "
        "- Init COMPLETE\n"
    )
    text = (
        line.format(h=1, r=0, n=2) + line.format(h=1, r=5, n=16) + line.format(h=2, r=13, n=16)
        + line.format(h=2, r=1, n=2)
    )  # fmt: skip
    assert [(p.rank, p.host) for p in scan(text).places] == [(5, "node01"), (13, "node02")]


def test_lines_that_follow_name_the_missing_tasks(scan):
    text = (
        "DEADLINE_EXCEEDED: Barrier timed out. Id: x.1. This usually happens because\n"
        "# of tasks that reached the barrier: 6/8.\n"
        "/job:jax_worker/replica:0/task:6\n/job:jax_worker/replica:0/task:2\n"
    )
    (seen,) = scan(text).evidence
    assert (seen.fields["culprits"], seen.fields["reached"]) == ("6, 2", "6")


def test_a_restart_of_the_whole_job_is_marked(scan):
    text = "a\n[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    assert [(a.file, a.line) for a in scan(text).attempts] == [("job.out", 2)]


def test_a_kernel_log_gives_facts_of_its_host(scan):
    (seen,) = scan("[1.000000] NVRM: Xid (PCI:0000:02:00): 79, pid=1, GPU has fallen off the bus.",
                   host="node05", fact=True).evidence  # fmt: skip
    assert (seen.host, seen.fact, seen.klass) == ("node05", True, "hardware/gpu-off-bus")


def test_an_xid_that_is_not_listed_is_no_evidence(scan):
    assert scan("NVRM: Xid (PCI:0000:02:00): 63, pid=1, Row remapping event\n").evidence == ()


def test_of_a_flood_the_first_and_the_last_are_kept_and_all_are_counted(scan):
    text = "".join(f"[rank{n % 4}]: step {n} GPU is lost\n" for n in range(100_000))
    result = scan(text)
    assert result.counts["cuda-gpu-lost"] == 100_000
    assert len(result.evidence) == 4 * 16
    assert (result.evidence[0].line, result.evidence[-1].line) == (1, 100_000)


def test_unreadable_files_are_notes_not_errors(tmp_path):
    good = tmp_path / "good.log"
    good.write_text("GPU is lost\n")
    result = scan_files([str(tmp_path / "no.log"), str(tmp_path), str(good)])
    assert [e.file for e in result.evidence] == [str(good)]
    assert len(result.notes) == 2
    assert "No such file" in result.notes[0]


def test_a_stream_that_breaks_keeps_what_was_read():
    class Broken(io.BytesIO):
        def read(self, size=-1):
            data = super().read(size)
            if not data:
                raise OSError(5, "Input/output error")
            return data

    result = scan_files([("log", Broken(b"GPU is lost\n"))])
    assert [e.line for e in result.evidence] == [1]
    assert result.notes == ("log: read up to byte 12: Input/output error",)


def test_a_files_own_rank_and_host_hold_where_the_line_says_nothing(scan):
    (seen,) = scan("GPU is lost\n", host="node09", rank=4, label=2).evidence
    assert (seen.host, seen.rank, seen.label) == ("node09", 4, 2)


def table():
    return literal_table([*(s.triggers for s in CATALOGUE.signatures), (HEADER,), CHAINED])[0]


EXAMPLES = [s.example.encode() for s in CATALOGUE.signatures]
ENGINES = (FindMatcher(table()), HyperscanMatcher(table()))
PARTS = st.lists(
    st.sampled_from([*EXAMPLES, b"\n", b"\n", b"\r", b"[rank3]: ", b"7: ", b"\0\xff", b"\x1b[31m",
                     b"Traceback (most recent call last):\n"]),
    max_size=25,
)  # fmt: skip


@given(PARTS)
@settings(deadline=None, max_examples=60)
def test_any_mixture_scans_and_both_engines_agree(parts):
    data = b"".join(parts)
    results = [
        scan_files([Source("x", io.BytesIO(data))], Settings(started_at=1.0), CATALOGUE, engine)
        for engine in ENGINES
    ]
    assert results[0] == results[1]
    last = data.count(b"\n") + 1
    for seen in results[0].evidence:
        assert 1 <= seen.line <= last
        assert seen.text.replace("\t", "").isprintable()


@given(st.binary(max_size=2000))
@settings(deadline=None, max_examples=60)
def test_any_bytes_scan(data):
    scan_files([Source("x", io.BytesIO(data), len(data))], Settings(), CATALOGUE)
