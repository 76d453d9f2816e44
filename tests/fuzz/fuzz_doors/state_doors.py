"""Our own files after a disk, a crash, another release or an intruder had its way with them."""

import os
import zlib
from pathlib import Path

import msgspec
from door import door, encodable, finite, put, scratch

from epilog.decide import store as suspicions
from epilog.decide.suspicions import Suspicion
from healthcheck import event_log
from healthcheck.allreduce.history import FILE as ALLREDUCE
from healthcheck.allreduce.history import load_history
from healthcheck.baseline import FILE as BASELINE
from healthcheck.baseline import advance, load_baseline
from healthcheck.config import Config, load_config
from healthcheck.events import STANDING, load_standing
from healthcheck.host import RecordedHost
from healthcheck.model import Baseline, Counter, Event, LastJob, Snapshot
from healthcheck.model.snapshot import decode_snapshot, encode_snapshot
from healthcheck.node_event import NodeEvent
from healthcheck.profile import choose_profile
from healthcheck.profile_file import Refused, load_profile
from prolog.task import prepare
from slurm_integration.history.export import read_export
from slurm_integration.install.disk import Disk
from slurm_integration.install.manifest import Manifest, manifest_path, read_manifest
from slurm_integration.install.model import InstallError
from slurm_integration.notify.deliver import FILE as NOTIFIED
from slurm_integration.notify.deliver import _load as load_handed
from slurm_integration.requalify.store import FILE as BOOK
from slurm_integration.requalify.store import Store

BUILT_IN = os.path.join(os.path.dirname(__import__("healthcheck").__file__), "profiles")
MEMORY = Baseline(
    taken_at=1796098259.0,
    boot_id="b",
    profile="h100-sxm",
    kernel_log_sequence=340,
    counters={"0000:1b:00.0|pcie_replays": Counter(3, 1796098259.0)},
    events=(Event("xid", 1796098259.0, "b", code=79, subject="0000:1b:00.0"),),
    last_job=LastJob(4711, 1000),
)
SEEN = Snapshot(node="node01", taken_at=1796098260.0)
EVENT = NodeEvent("0" * 32, 1796098259.0, "node01", "finding", check="xid", message="x", code=79)


def _log() -> list[bytes]:
    folder = scratch("event-seeds")
    event_log.record(folder, [EVENT, EVENT])
    with open(f"{folder}/{event_log.FILE}", "rb") as file:
        return [file.read()]


@door("baseline", lambda: [msgspec.json.encode(MEMORY)])
def _baseline(data: bytes) -> None:
    folder = scratch("baseline")
    put(f"{folder}/{BASELINE}", data)
    found, note = load_baseline(folder)
    assert found is not None or note
    if found is not None:
        encodable(advance(msgspec.structs.replace(SEEN, baseline=found), (), "h100-sxm", None))


@door("event-log", _log)
def _event_log(data: bytes) -> None:
    folder = scratch("events")
    put(f"{folder}/{event_log.FILE}", data)
    page = event_log.read_since(folder)
    encodable(page)
    assert event_log.record(folder, [EVENT]) is None
    assert EVENT.id in {event.id for event in event_log.read_since(folder).events}


@door("event-log-with-right-sums", lambda: [msgspec.json.encode(EVENT)])
def _event_lines(data: bytes) -> None:
    """Sums don't keep out who can count."""
    body = b"1796098259000 " + data.replace(b"\n", b" ")
    folder = scratch("events-summed")
    put(f"{folder}/{event_log.FILE}", b"%08x %d %s\n" % (zlib.crc32(body), len(body), body))
    encodable(event_log.read_since(folder))


@door(
    "small-state-files",
    lambda: [
        b'{"version":1,"suspicions":[{"node":"node01","klass":"hardware/x","job_id":1,"uid":2,"at":1e9}]}',
        b'{"since":1.0,"ids":["a"]}',
        b'{"version":1,"runs":[]}',
        b'{"form":1,"nodes":{}}',
        b"{}",
    ],
)
def _small(data: bytes) -> None:
    folder = scratch("small")
    for name in (suspicions.FILE, NOTIFIED, ALLREDUCE, BOOK, STANDING):
        put(f"{folder}/{name}", data)
    one = Suspicion("node01", "hardware/x", 1, 2, 1e9)
    kept, _ = suspicions.update(folder, lambda before: (*before, one))
    assert one in kept
    load_handed(folder, 1e9)
    encodable(load_history(folder)[0])
    encodable(Store(folder).load()[0])
    encodable(load_standing(folder))


@door("install-manifest", lambda: [msgspec.json.encode(Manifest())])
def _manifest(data: bytes) -> None:
    folder = scratch("install")
    disk = Disk(folder)
    put(f"{folder}{manifest_path('/opt')}", data)
    try:
        encodable(read_manifest(disk, "/opt"))
    except InstallError:
        pass


@door("snapshot", lambda: [encode_snapshot(SEEN), msgspec.json.encode(SEEN)])
def _snapshot(data: bytes) -> None:
    try:
        encodable(decode_snapshot(data))
    except ValueError:
        pass


@door(
    "recorded-machine",
    lambda: [
        b'{"node":"n","commands":{"x":{"code":0}},"space":{"/":{"size_bytes":1,"free_bytes":1}},"clock":{"synchronised":true}}'
    ],
)
def _recorded(data: bytes) -> None:
    folder = scratch("recorded")
    put(f"{folder}/host.json", data)
    host = RecordedHost(folder)
    host.node_name()


@door(
    "configuration",
    lambda: [
        Path(BUILT_IN, "../data/flightcheck.toml").read_bytes()[:6000],
        b'profile = "auto"\n[drain]\nmax_nodes = 2\n[checks.gpu-count]\n'
        b"enabled = false\nlimits = {gpus = 8}\n",
    ],
)
def _configuration(data: bytes) -> None:
    path = put(f"{scratch('configuration')}/flightcheck.toml", data)
    config, notes, refused = load_config(path)
    finite(msgspec.to_builtins(config))
    for note in notes:
        note.encode("utf-8")
        assert "\x1b" not in note
    # A broken configuration means the defaults, and says so: it never drains by half a file.
    assert not refused or (config == Config() and notes)


@door(
    "profile",
    lambda: [Path(BUILT_IN, f"{name}.toml").read_bytes() for name in ("h100-sxm", "cpu-only")],
)
def _profile(data: bytes) -> None:
    folder = scratch("profiles")
    put(f"{folder}/site.toml", data)
    try:
        load_profile("site", [folder, BUILT_IN])
    except Refused as refusal:
        assert refusal.notes
    choose_profile("auto", [folder, BUILT_IN], None, None)
    choose_profile("site", [folder, BUILT_IN], None, None)


@door(
    "verdict-file",
    lambda: [
        b'{"node":"node01","verdict":"go","line":"node01 is go","gpus":{"0":"GPU-1"},'
        b'"settings":{"tell":"always","flight_recorder":"off","rank_map":"off"}}'
    ],
)
def _verdict(data: bytes) -> None:
    """Root's own file; the task prolog must still print no second line for slurmstepd."""
    folder = scratch("verdict")
    put(f"{folder}/run/flightcheck/4711", data)
    env = {
        "SLURM_JOB_ID": "4711",
        "FLIGHTCHECK_ROOT": folder,
        "SLURM_PROCID": "0",
        "SLURM_STEP_ID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
    }
    try:
        lines = prepare(env)
    except (KeyError, TypeError, AttributeError, ValueError):
        return  # main() tells it and lets the task run
    assert all(isinstance(line, str) for line in lines)


@door(
    "history-export",
    lambda: [
        msgspec.json.encode(
            {"form": 1, "now": 1796098259.0, "events": [EVENT], "profile": "h100-sxm"}
        )
    ],
)
def _export(data: bytes) -> None:
    try:
        export, refused = read_export(data, "node01", 1796098260.0)
    except ValueError:
        return
    assert refused >= 0
    encodable(export)
    for event in export.events:
        finite(msgspec.to_builtins(event))
        assert event.at <= 1796098260.0
        assert event.node == "node01" or (event.kind == "job-failure" and event.root)
