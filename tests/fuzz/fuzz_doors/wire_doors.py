"""What other machines send: a sweep's answers, and peers of the test across nodes."""

import json
import socket

import msgspec
from door import door, encodable, finite, harmless

from healthcheck import __version__
from healthcheck.allreduce import launch
from slurm_integration.allreduce_nodes.coordinator import merge
from slurm_integration.allreduce_nodes.model import NodeResult
from slurm_integration.allreduce_nodes.order import Hello, Order
from slurm_integration.allreduce_nodes.wire import Line
from slurm_integration.fleet_report.page import render
from slurm_integration.fleet_report.reading import read_result
from slurm_integration.sweep.gather import as_text, exit_code, gather
from slurm_integration.sweep.model import Answer, Sweep, decode_sweep, encode_sweep
from slurm_integration.sweep.transports.base import Errand, Target
from slurm_integration.sweep.transports.framing import read_answer
from slurm_integration.sweep.transports.labels import LabelledStreams

NONCE = "0123456789abcdef"
REPORT = {
    "verdict": "no-go",
    "node": "node01",
    "profile": "h100-sxm",
    "stage": "sweep",
    "duration_s": 0.1,
    "notes": ["x"],
    "version": __version__,
    "facts": {},
    "outcomes": [
        {
            "check": "gpu-count",
            "outcome": "found",
            "reason": None,
            "findings": [
                {
                    "severity": "fail",
                    "subject": "gpus",
                    "message": "7 of 8",
                    "action": "reboot",
                    "measured": 7,
                    "expected": 8,
                    "source": None,
                }
            ],
        }
    ],
}
BODY = json.dumps(REPORT).encode()
FRAMED = b"motd\n<%s begin node01>%s<%s end 2>\n" % (NONCE.encode(), BODY, NONCE.encode())
ERRAND, TARGET = Errand(nonce=NONCE), Target("node01", "IDLE")
HELLO = {
    "t": "hello",
    "index": 1,
    "local": 8,
    "backend": "nccl",
    "port": 4000,
    "version": "x",
    "key": "k",
}
RESULT = {"t": "result", "id": 1, "end": "ok", "busbw_gb_s": 400.0, "own_fault": "", "port": 4001}
ORDER = {
    "t": "order",
    "id": 1,
    "first": 0,
    "ranks": 16,
    "store_host": "10.0.0.1",
    "store_port": 20000,
    "serve": True,
    "address": "10.0.0.2",
    "seed": 5,
    "seconds": 60.0,
}


@door("sweep-answer", lambda: [FRAMED, BODY])
def _answer(data: bytes) -> None:
    for output in (data, b"<%s begin n>%s<%s end 0>" % (NONCE.encode(), data, NONCE.encode())):
        arrival = read_answer(output, data[:300], ERRAND, TARGET, "ssh", 0.1)
        result = arrival.result
        encodable(result)
        harmless(result.detail)
        # Never a verdict out of garbage: only a whole report in its frame has one.
        if result.answer is not Answer.REPORTED:
            assert result.verdict is None
        elif result.report is not None:
            finite(result.report)
            finite(result.facts)
        for line in as_text(gather([result])):
            harmless(line.strip())
        exit_code([result])
        read_result(result, "")


@door(
    "sweep-file",
    lambda: [
        encode_sweep(
            Sweep(1.0, 1.0, "sweep", (read_answer(FRAMED, b"", ERRAND, TARGET, "ssh", 0.1).result,))
        )
    ],
)
def _sweep(data: bytes) -> None:
    try:
        sweep = decode_sweep(data)
    except ValueError:
        return
    page = render(sweep)
    assert "<script>alert" not in page
    page.encode("utf-8")


@door(
    "srun-labels",
    lambda: [b"".join(b"0: %s\n" % FRAMED[i : i + 100] for i in range(0, len(FRAMED), 100))],
)
def _labels(data: bytes) -> None:
    streams = LabelledStreams(NONCE, 1 << 20)
    list(streams.output(data))
    streams.errors(data)
    for node, _, _ in streams.rest():
        assert isinstance(node, str)


def _lines(*messages: dict) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@door("wire", lambda: [_lines(HELLO), _lines(RESULT, ORDER), _lines(ORDER)])
def _wire(data: bytes) -> None:
    """Whoever reaches the port may say this, before anybody knows who it is."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        theirs = socket.create_connection(server.getsockname()[:2])
        ours = server.accept()[0]
    with ours, theirs:
        line = Line(ours)
        theirs.sendall(data[:60_000])
        messages = line.receive()
        for message in messages:
            finite(message)
            for kind in (Hello, Order, NodeResult):
                try:
                    told = msgspec.convert(message, kind)
                except msgspec.ValidationError:
                    continue
                finite(msgspec.to_builtins(told))
                if isinstance(told, NodeResult):
                    _one_test(told)


def _one_test(told: NodeResult) -> None:
    measured = merge(("a", "b"), "pair", 1, {"a": told, "b": NodeResult(1, "ok")}, (), 1.0)
    encodable(measured)
    harmless(measured.reason)
    # Words that are no end of ours count as none: never as a pass.
    assert measured.end != "ok" or told.end == "ok"


@door("childs-messages", lambda: [_lines({"t": "error", "kind": "start"}), _lines({"t": "done"})])
def _child(data: bytes) -> None:
    for line in data.split(b"\n"):
        launch._decode(line)
