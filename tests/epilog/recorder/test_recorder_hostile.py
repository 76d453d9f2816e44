"""Dumps that a user made to hurt: refused by name, in bounded time and memory."""

import importlib.util
import io
import os
import pickle
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from epilog.recorder import read_dumps
from epilog.recorder.pickle_reader import MAX_CONTAINERS, MAX_OPS, Refused, loads

_SPEC = importlib.util.spec_from_file_location(
    "recorder_dumps2", Path(__file__).with_name("dumps.py")
)
dumps = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(dumps)
MARK = Path("/tmp") / f"flightcheck-pickle-ran-{os.getpid()}"


class Runs:
    """Runs a command when Python unpickles it."""

    def __reduce__(self):
        return os.system, (f"touch {MARK}",)


class Builds:
    def __getstate__(self):
        return {"a": 1}


class Persistent(pickle.Pickler):
    def persistent_id(self, obj):
        return "x" if obj == "secret" else None


def persistent() -> bytes:
    out = io.BytesIO()
    Persistent(out, 2).dump(["secret"])
    return out.getvalue()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("value", [Runs(), Builds(), os.system, {"entries": [Runs()]}, {1, 2}])
def test_nothing_in_a_file_is_ever_run_or_built(value, protocol):
    with pytest.raises(Refused, match="opcode"):
        loads(pickle.dumps(value, protocol))
    assert not MARK.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cposix\nsystem\n(S'touch x'\ntR.",
        b"\x80\x02cbuiltins\neval\n.",
        b"\x80\x02\x8c\x05posix\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02i__main__\nA\n.",
        persistent(),
        b"\x80\x05\x97.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    ],
)
def test_every_opcode_that_could_do_something_is_refused(data):
    with pytest.raises(Refused):
        loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x02(.",
        b"\x80\x02((.",
        b"\x80\x02K",
        b"\x80\x02h\x01.",
        b"\x80\x02q\x01.",
        b"\x80\x02]e.",
        b"\x80\x02(K\x01e.",
        b"\x80\x02}(K\x01u.",
        b"\x80\x02K\x01K\x02s.",
        b"\x80\x02}](]]u.",
        b"\x80\x02}(]K\x01u.",
        b"\x80\x02(](a.",
        b"\x80\x02X\x04\x00\x00\x00\xff\xff\xff\xff.",
        b"\x80\x02X\xff\xff\xff\xffabc.",
        b"\x80\x02\x8d" + b"\xff" * 8 + b"a.",
        b"\x80\x02B\xff\xff\xff\x7fa.",
        b"\x80\x02\x8b\xff\xff\xff\x7fa.",
        b"\x80\x02r\xff\xff\xff\xff.",
        b"\x80\x02\x85.",
        b"\x80\x02(\x86.",
        b"\x80\x02K\x01K\x02.",
    ],
)
def test_damaged_files_are_refused_and_nothing_else_happens(data):
    with pytest.raises(Refused):
        loads(data)


def test_a_claimed_length_is_not_allocated():
    tracemalloc.start()
    with pytest.raises(Refused, match="claimed"):
        loads(b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"abc")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_memo_number_of_four_billion_costs_nothing():
    assert loads(b"\x80\x02]r\xff\xff\xff\xff.") == []


def test_bombs_of_operations_and_containers_are_bounded():
    with pytest.raises(Refused, match="operations"):
        loads(b"\x80\x02" + b"(" * (MAX_OPS + 20_000))
    with pytest.raises(Refused, match="containers"):
        loads(b"\x80\x02" + b"]" * (MAX_CONTAINERS + 1))


def test_a_hundred_thousand_levels_are_no_recursion():
    depth = 100_000
    value = loads(b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".")
    assert isinstance(value, list)
    result = read_dumps([("x_1", io.BytesIO(b"[" * depth))])
    assert "not read" in result.notes[0]


def test_a_tuple_of_itself_sixty_times_is_no_key():
    """As a dict key it would take 2**60 steps to hash."""
    body = b")" + b"q\x00h\x00\x86" * 60
    with pytest.raises(Refused, match="a key of type tuple"):
        loads(b"\x80\x02}(" + body + b"K\x01u.")


def test_a_gigabyte_of_nothing_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "nccl_trace_rank_0"
    with path.open("wb") as file:
        file.truncate(4 << 30)
    with path.open("rb", buffering=0) as file:
        result = read_dumps([(path.name, file)])
    assert result.works == ()
    assert "larger than 64 MiB" in result.notes[0]


def test_one_bad_file_hides_no_other():
    good = dumps.dump([dumps.entry(1, done=False)])
    files = [
        ("t_0", io.BytesIO(pickle.dumps(Runs(), 2))),
        ("t_1", io.BytesIO(pickle.dumps(good, 2))),
        ("t_2", io.BytesIO(b"\x7fELF")),
        ("t_x", io.BytesIO(pickle.dumps(good, 2))),
        ("t_3", io.BytesIO(b"{}")),
        ("t_4", io.BytesIO(b'{"entries": 7}')),
        ("t_5", io.BytesIO(b"")),
    ]
    result = read_dumps(files)
    assert [w.rank for w in result.works] == [1]
    assert len(result.notes) == 6
    assert "opcode" in result.notes[0]
    assert not MARK.exists()


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [[]], {"a": None}, float("nan"), -1, True])
def test_fields_of_any_other_type_are_dropped(junk):
    plain = dumps.entry(1, done=False)
    for key in plain:
        dumps.read({0: dumps.dump([dumps.entry(1)]) | {"entries": [plain | {key: junk}]}})
    for key in ("version", "pg_config", "pg_status", "rank"):
        dumps.read({0: dumps.dump([plain]) | {key: junk}})
    dumps.read({0: dumps.dump([plain], config={"0": junk, "1": {"ranks": junk, "name": junk}})})


def test_reading_ends_when_its_time_is_up():
    good = dumps.dump([dumps.entry(1, done=False)])
    result = dumps.read(dict.fromkeys(range(4), good), deadline=time.monotonic() - 1)
    assert result.works == ()
    assert "the time was up after 0 dumps" in result.notes[0]
