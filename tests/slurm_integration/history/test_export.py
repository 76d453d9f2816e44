"""What a node hands out, and how much of it is believed."""

import msgspec
import pytest

from healthcheck import __version__
from healthcheck.baseline import save_baseline
from healthcheck.event_log import record
from healthcheck.model import Baseline
from healthcheck.node_event import NodeEvent, job_failures
from slurm_integration.history.export import Export, make_export, read_export
from slurm_integration.sweep.model import Answer
from slurm_integration.sweep.transports.base import Errand, Target
from slurm_integration.sweep.transports.framing import read_answer

NOW = 1_790_000_000.0


def event(number, **fields):
    return NodeEvent(f"{number:032x}", NOW - 5, "node01", **{"kind": "xid", **fields})


def exported(*events, **fields):
    return msgspec.json.encode(Export(**{"form": 1, "now": NOW, "events": events, **fields}))


def believed(*events):
    export, refused = read_export(exported(*events), "node01", NOW)
    return list(export.events), refused


def test_a_nodes_log_travels_as_the_sweep_carries_it(tmp_path):
    record(str(tmp_path), [event(1, code=79)])
    save_baseline(str(tmp_path), Baseline(profile="h100-sxm"))
    errand = Errand(whole=True)
    body = make_export(str(tmp_path), "node01", 0.0)
    output = f"<{errand.nonce} begin node01>".encode() + body + f"<{errand.nonce} end 0>".encode()
    arrival = read_answer(output, b"", errand, Target("node01"), "ssh", 0.1)
    assert arrival.result.answer is Answer.REPORTED, arrival.result.detail
    export, refused = read_export(arrival.snapshot, "node01", NOW)
    assert (export.events, export.profile, refused) == ((event(1, code=79),), "h100-sxm", 0)
    assert __version__.encode() in body


def test_a_node_without_a_log_has_nothing_to_tell(tmp_path):
    report = msgspec.json.decode(make_export(str(tmp_path), "node01", 0.0))
    assert report["snapshot"]["events"] == []


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"form": 2, "now": 1, "events": []}', b"\xff", b"[" * 100_000,
     b'{"form": 1, "now": 1, "events": [{"id": 3}]}', b'{"form": 1, "now": "x", "events": []}'],
)  # fmt: skip
def test_what_is_no_export_is_refused(data):
    with pytest.raises(ValueError, match="expected events of form 1"):
        read_export(data, "node01", NOW)


@pytest.mark.parametrize(
    "odd",
    [
        event(1, kind="DROP TABLE"),
        event(1, kind=""),
        msgspec.structs.replace(event(1), id="x" * 32),
        msgspec.structs.replace(event(1), id="f" * 33),
        msgspec.structs.replace(event(1), at=-1.0),
        event(1, code=2**63),
        event(1, count=-(2**63)),
    ],
)
def test_an_event_that_makes_no_sense_is_left_out(odd):
    assert believed(odd, event(2)) == ([event(2)], 1)


def test_a_node_speaks_for_itself():
    (one,), _ = believed(msgspec.structs.replace(event(1), node="node99"))
    assert one.node == "node01"


def test_of_a_failed_job_a_node_may_name_another():
    told = job_failures("node01", 7, "hardware/gpu-lost", ["node99"], at=NOW - 5, nodes=4)
    assert believed(*told)[0][0].node == "node99"


def test_the_future_is_now():
    (one,), _ = believed(msgspec.structs.replace(event(1), at=NOW + 1e9))
    assert one.at == NOW


def test_texts_are_clean_and_bounded():
    (one,), _ = believed(event(1, message="\x1b[31mred\0\n" + "x" * 9999, subject="a\u202eb"))
    assert one.message.startswith("red xxx")
    assert len(one.message) == 400
    assert one.subject == "a b"
