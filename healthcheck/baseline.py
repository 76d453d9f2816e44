"""What a node remembers between two looks, so that growth is judged and not lifetime totals.

One small file on the node's own disk. A file that cannot be read is set aside, never trusted and
never fatal: a new baseline begins.
"""

import os
from collections.abc import Iterable, Iterator

import msgspec

from healthcheck.model import (
    Baseline,
    Counter,
    Event,
    Job,
    LastJob,
    Outcome,
    Severity,
    Snapshot,
)
from healthcheck.model.fabric import upstream
from healthcheck.model.snapshot import SNAPSHOT_VERSION
from healthcheck.own_folder import check_folder, own_folder
from healthcheck.strict_json import decode_json
from healthcheck.whole_file import write_whole

FILE = "baseline.json"
KEEP_EVENTS = 256
KEEP_EVENTS_S = 7 * 86_400.0
LINK_DOWNED = "link-downed"


def counters(node: Snapshot) -> Iterator[tuple[str, str, int]]:
    """(subject, counter, value) of everything in a snapshot that only ever grows."""
    for gpu in node.gpus or ():
        for name in GPU_COUNTERS:
            value = getattr(gpu, name)
            if value is not None and gpu.bus_id:
                yield gpu.bus_id, name, value
        for link in gpu.nvlinks or ():
            for name in NVLINK_COUNTERS:
                value = getattr(link, name)
                if value is not None:
                    yield gpu.bus_id, f"nvlink{link.index}_{name}", value
    for device in node.pci or ():
        if device.aer is not None:
            for kind in ("correctable", "nonfatal", "fatal"):
                yield device.bus_id, f"aer_{kind}", sum(getattr(device.aer, kind).values())
    for hca in node.hcas or ():
        for port in hca.ports:
            for name, value in (*port.counters.items(), *port.hw_counters.items()):
                yield f"{hca.name}/{port.number}", name, value
    for controller in node.memory_controllers or ():
        for name in ("corrected", "uncorrected"):
            value = getattr(controller, name)
            if value is not None:
                yield controller.name, name, value


GPU_COUNTERS = (
    "ecc_volatile_corrected",
    "ecc_volatile_uncorrected",
    "ecc_aggregate_corrected",
    "ecc_aggregate_uncorrected",
    "remapped_correctable",
    "remapped_uncorrectable",
    "retired_pages_single_bit",
    "retired_pages_double_bit",
    "pcie_replays",
)
NVLINK_COUNTERS = (
    "replay_errors",
    "recovery_errors",
    "crc_flit_errors",
    "crc_data_errors",
    "recovery_failed_events",
    "integrity_errors",
)


def load_baseline(folder: str) -> tuple[Baseline | None, str | None]:
    """The remembered baseline and a note for the reader, each None where there is none.

    A file that is cut short, of another version or not ours is renamed to `….set-aside`.
    """
    path = f"{folder}/{FILE}"
    try:
        check_folder(folder)
        with open(path, "rb") as file:
            data = file.read(32 << 20)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"{path}: {error.strerror}; judged without a baseline"
    try:
        baseline = decode_json(data, Baseline)
        if baseline.version != SNAPSHOT_VERSION:
            raise msgspec.ValidationError(f"version {baseline.version}, not {SNAPSHOT_VERSION}")
    except msgspec.MsgspecError as error:
        return None, _set_aside(path, str(error))
    return baseline, None


def _set_aside(path: str, why: str) -> str:
    aside = f"{path}.set-aside"
    try:
        os.replace(path, aside)
    except OSError as error:
        return f"{path} is not a baseline ({why}) and stays: {error.strerror}; begun anew"
    return f"{path} is not a baseline ({why}); set aside as {aside}, begun anew"


def save_baseline(folder: str, baseline: Baseline) -> str | None:
    """Write it so that a reader sees the old one or the new one, never half. A note on failure."""
    path = f"{folder}/{FILE}"
    try:
        own_folder(folder)
        write_whole(path, msgspec.json.encode(baseline))
    except OSError as error:
        return f"{path}: {error.strerror}; growth will be measured from the older baseline"
    return None


def advance(node: Snapshot, outcomes: Iterable[Outcome], profile: str, job: Job | None) -> Baseline:
    """The baseline after this look.

    Counters of a subject that failed stay where they were, so that the next look finds the same
    failure again until somebody mends or accepts it. What was not measured is kept.
    """
    before = node.baseline or Baseline()
    failed = _failed(node, outcomes)
    kept = dict(before.counters)
    for subject, name, value in counters(node):
        key = f"{subject}|{name}"
        # link_downed always moves on: its growth is kept as an event, and would become the same
        # event again at every look.
        if subject not in failed or key not in kept or name == "link_downed":
            kept[key] = Counter(value, node.taken_at)
    log = node.kernel_log
    return Baseline(
        taken_at=node.taken_at,
        boot_id=node.boot_id,
        profile=profile,
        accepted_at=before.accepted_at,
        kernel_log_sequence=log.next_sequence if log else before.kernel_log_sequence,
        counters=kept,
        events=_remember(before.events, [*node.new_events(), *links_downed(node)], node.taken_at),
        last_job=_sole_job(node, job) if job else before.last_job,
    )


def _sole_job(node: Snapshot, job: Job) -> LastJob | None:
    """The job, if it has the node for itself: on a shared node nobody knows whose error a later
    event is, and it must not be charged to whoever came last.
    """
    gpus = node.gpus or ()
    if gpus and len(node.owned_gpus()) < len(gpus):
        return None
    return LastJob(job.job_id, job.uid)


def _failed(node: Snapshot, outcomes: Iterable[Outcome]) -> set[str]:
    """Subjects that failed, and the bridges above them, which may have counted the errors."""
    subjects = {
        finding.subject
        for outcome in outcomes
        for finding in outcome.findings
        if finding.severity is Severity.FAIL
    }
    above = {b.bus_id for subject in subjects for b in upstream(node.pci or (), subject)}
    return subjects | above


def links_downed(node: Snapshot) -> Iterator[Event]:
    """Each growth of link_downed as an event, so that flapping shows over time.

    A reboot takes every link down once and tells nothing. Some HCAs keep their counters through
    a driver's restart, so only a smaller value means that it began again.
    """
    if node.baseline is None or node.baseline.boot_id != node.boot_id:
        return
    for hca in node.hcas or ():
        for port in hca.ports:
            subject = f"{hca.name}/{port.number}"
            grown = node.growth(subject, "link_downed", port.counters.get("link_downed"))
            if grown and grown.delta:
                yield Event(
                    LINK_DOWNED, node.taken_at, node.boot_id, subject=subject, count=grown.delta
                )


def _remember(old: tuple[Event, ...], new: list[Event], now: float) -> tuple[Event, ...]:
    events = [e for e in (*old, *new) if e.at >= now - KEEP_EVENTS_S]
    return tuple(events[-KEEP_EVENTS:])


def accept(baseline: Baseline, now: float) -> Baseline:
    """The baseline of a node that an operator says is mended: older events judge no more.

    Counters are dropped, so that the next look takes fresh ones.
    """
    return msgspec.structs.replace(baseline, accepted_at=now, counters={})
