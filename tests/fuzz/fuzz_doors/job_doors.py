"""The files of a failed job: every byte is its user's, and none of them may drain a node."""

import io
import json
import pickle
from pathlib import Path

import msgspec
from door import door, encodable, finite, put, scratch, text_of

from epilog.classify import classify
from epilog.decide import decide
from epilog.model import Attribution, JobFacts
from epilog.reader.child import _merged, _parts
from epilog.reader.paths import codes_of_name, expand, expand_site
from epilog.reader.rank_map import parse_rank_maps
from epilog.reader.torchrun import parse_error_file
from epilog.recorder import read_dumps
from epilog.scan import Settings, Source, scan_files
from epilog.signatures import load
from epilog.signatures.loader import FOLDER, SignatureError, check_patterns
from epilog.task_exits import parse_record

HERE = Path(__file__).parents[2] / "epilog"
FACTS = JobFacts(job_id=4711, uid=1000, exit_code=1, nodes=("node01", "node02"), started_at=1.7e9)
CATALOGUE = load()


def _logs() -> list[bytes]:
    files = [*sorted((HERE / "corpus").glob("*.log")), *sorted((HERE / "faults").glob("*.log"))]
    return [path.read_bytes()[:5000] for path in files]


def _dumps() -> list[bytes]:
    folder = HERE / "recorder/data"
    found = [p.read_bytes() for p in sorted(folder.glob("*/*")) if p.is_file()]
    plain = {
        "version": "2.5",
        "pg_config": {"0": {"name": "0", "desc": "default", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_enqueued_collective": 3, "last_completed_collective": 2}},
        "entries": [
            {
                "collective_seq_id": 3,
                "profiling_name": "nccl:all_reduce",
                "state": "started",
                "input_sizes": [[4, 4]],
                "output_sizes": [[4, 4]],
                "process_group": ["0", "default"],
                "frames": [{"name": "f", "filename": "a.py", "line": 3}],
                "time_created_ns": 1,
            }
        ],
    }
    return [*found[:24], pickle.dumps(plain, 2), json.dumps(plain).encode()]


def _no_drain(answer: Attribution) -> None:
    """Law 5: what a user wrote drains nothing and requeues nothing."""
    encodable(answer)
    decision = decide(answer, FACTS, (), None, 1.7e9)
    assert not decision.drain
    assert not decision.diagnose
    assert not decision.requeue
    assert {s.node for s in decision.suspicions} <= {"node01", "node02"}


@door("log", _logs, largest=16384)
def _log(data: bytes) -> None:
    settings = Settings(started_at=1.7e9, nodes=FACTS.nodes)
    scan = scan_files([Source("log", io.BytesIO(data), len(data))], settings, CATALOGUE)
    encodable(scan)
    assert not any(e.fact for e in scan.evidence)
    _no_drain(classify(FACTS, scan))


@door("flight-recorder", _dumps, largest=65536)
def _recorder(data: bytes) -> None:
    good = _dumps()[-2]
    found = read_dumps([("/x/fr_0", io.BytesIO(data)), ("/x/fr_1", io.BytesIO(good))])
    encodable(found)
    assert not any(e.fact for e in found.evidence)
    whole = scan_files([], Settings(), CATALOGUE)
    whole = msgspec.structs.replace(whole, works=tuple(found.works), evidence=tuple(found.evidence))
    _no_drain(classify(FACTS, whole))


@door(
    "rank-map",
    lambda: [
        b'{"host":"node01","rank":3,"local_rank":3,"gpu_uuid":"GPU-1","pid":77}\n'
        b'{"host":"node02","label":1,"pid":1}\n'
    ],
)
def _rank_map(data: bytes) -> None:
    for name in ("/x/ranks-0-0-node01.jsonl", "/x/ranks-1-2-node01.jsonl"):
        encodable(parse_rank_maps([(name, data), ("/x/ranks-0-0-node02.jsonl", data)]))
    parse_rank_maps([(text_of(data)[:4096], b"{}")])


@door(
    "torchrun-error-file",
    lambda: [
        b'{"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback '
        b"(most recent"
        b' call last):\\n  File \\"a.py\\", line 1\\nValueError: x", "timestamp": "1796098259"}}}',
        b'{"message": "Signal 9 (SIGKILL) received by PID 3"}',
    ],
)
def _error_file(data: bytes) -> None:
    error = parse_error_file("/tmp/torchelastic_x/a/attempt_0/1/error.json", data)
    if error is not None:
        finite(error)
        error.text.encode("utf-8", "replace")
    parse_error_file(text_of(data)[:4096], b'{"message": "x"}')


@door(
    "task-record",
    lambda: [b"1 0 3 3 4711 9 1796098259.123456789\n1 0 2 2 4712 256 1796098260.000000000\n"],
)
def _task_record(data: bytes) -> None:
    exits = parse_record(data.decode("ascii", "replace"), "node01")
    encodable(exits)
    finite([msgspec.to_builtins(one) for one in exits])


@door("file-name-patterns", lambda: [b"/home/a/%x-%j-%t.out", b"logs/%5j_%A_%a_%N.log", b"a\\%j"])
def _patterns(data: bytes) -> None:
    pattern = text_of(data)
    known = {"j": "4711", "x": pattern[:50], "u": "alice"}
    for make in (expand, expand_site):
        path = make(pattern, known, "/home/alice")
        assert path is None or path.startswith("/")
    codes_of_name(pattern, "/home/a/%x-%j-%N-%t.out", known)
    codes_of_name("/home/a/x-4711-node01-3.out", pattern, known)


@door("readers-answer", lambda: [b"\x05\x00\x00\x00\x00\x00\x00\x00\x80aaaa" + bytes(8)])
def _answer(data: bytes) -> None:
    """The reader has a user's rights once it reads: what it sends back is not trusted either."""
    parts, notes, _ = _parts(data)
    encodable(_merged(parts, notes))


@door(
    "signature-files",
    lambda: [
        Path(FOLDER, name).read_bytes()[:6000]
        for name in ("nccl.toml", "advice.toml", "classes.toml", "host.toml")
    ],
)
def _signatures(data: bytes) -> None:
    folder = scratch("signatures")
    put(f"{folder}/site.toml", data)
    try:
        catalogue = load((FOLDER, folder))
    except SignatureError:
        return
    check_patterns(catalogue)
