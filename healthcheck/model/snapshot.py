"""Everything the probes saw at one moment, and what the node remembered from before."""

import msgspec

from healthcheck.model.allreduce import AllreduceResult
from healthcheck.model.fabric import Hca, PciDevice
from healthcheck.model.gpu import Driver, Gpu, P2pPair
from healthcheck.model.job import Job
from healthcheck.model.machine import (
    Clock,
    Filesystem,
    KernelLog,
    Memory,
    MemoryController,
    PowerSupply,
    Processes,
)

SNAPSHOT_VERSION = 1
DAY_S = 86_400.0


class Problem(msgspec.Struct, frozen=True):
    """Why a field of the snapshot is None.

    `kind`: absent (no such tool, device or file here), denied (no permission), failed (the
    reading broke), hung (one call gave no answer: `call` and `subject` name it), slow (calls were
    answered, but not all in time), stalled (the whole machine stood still meanwhile), skipped
    (nobody asked for it).
    """

    kind: str
    reason: str
    call: str | None = None
    subject: str | None = None


class Event(msgspec.Struct, frozen=True):
    """Something that happened on this node and is remembered past the reading that saw it.

    `kind` xid, sxid, mce, … as in KernelEvent, or link-downed. `at` is unix time. `job_id` and
    `uid` tell whose job was running, where known; `count` how often.
    """

    kind: str
    at: float
    boot_id: str | None = None
    code: int | None = None
    subject: str = ""
    message: str = ""
    job_id: int | None = None
    uid: int | None = None
    count: int = 1


class Counter(msgspec.Struct, frozen=True, array_like=True):
    """A remembered counter: its value and the unix time of the reading."""

    value: int
    at: float


class LastJob(msgspec.Struct, frozen=True):
    """The job that has all the node's GPUs since the last prolog."""

    job_id: int
    uid: int | None = None


class Baseline(msgspec.Struct, frozen=True):
    """What the node remembers: counters and events to measure growth from.

    `profile` is the node type once seen: a node that loses all its GPUs must not turn into one
    that expects none. `accepted_at` (unix time): older events were mended or accepted by an
    operator and judge the node no more.
    """

    version: int = SNAPSHOT_VERSION
    taken_at: float = 0.0
    boot_id: str | None = None
    profile: str | None = None
    accepted_at: float = 0.0
    kernel_log_sequence: int = 0
    counters: dict[str, Counter] = {}
    events: tuple[Event, ...] = ()
    last_job: LastJob | None = None


class Growth(msgspec.Struct, frozen=True):
    """How far a counter has come since the baseline.

    `delta` over `seconds`. `restarted`: the counter began again from zero in between (reboot,
    driver reload, reset), so `delta` is its whole value.
    """

    delta: int
    seconds: float
    restarted: bool = False

    def per_minute(self) -> float:
        """Mean rate. A very short interval counts as one minute, so that a burst is no storm."""
        return self.delta * 60.0 / max(self.seconds, 60.0)

    def per_hour(self) -> float:
        """Mean rate. An interval under one hour counts as one hour."""
        return self.delta * 3600.0 / max(self.seconds, 3600.0)


class Snapshot(msgspec.Struct, frozen=True):
    """All facts about one node at one moment. None means not measured; `problems` says why."""

    node: str
    taken_at: float
    version: int = SNAPSHOT_VERSION
    boot_id: str | None = None
    uptime_s: float | None = None
    job: Job | None = None
    baseline: Baseline | None = None

    driver: Driver | None = None
    gpus: tuple[Gpu, ...] | None = None
    p2p: tuple[P2pPair, ...] | None = None
    pci: tuple[PciDevice, ...] | None = None
    hcas: tuple[Hca, ...] | None = None
    kernel_log: KernelLog | None = None
    power_supplies: tuple[PowerSupply, ...] | None = None
    memory: Memory | None = None
    memory_controllers: tuple[MemoryController, ...] | None = None
    filesystems: tuple[Filesystem, ...] | None = None
    services: dict[str, str] | None = None
    clock: Clock | None = None
    modules: tuple[str, ...] | None = None
    processes: Processes | None = None
    allreduce: AllreduceResult | None = None

    problems: dict[str, Problem] = {}

    def growth(
        self, subject: str, counter: str, value: int | None, *, lifetime: bool = False
    ) -> Growth | None:
        """How far `counter` of `subject` has grown since the baseline, or None without one.

        `lifetime` counters survive a reboot (aggregate ECC, retired pages); all others begin at
        zero with the driver or the boot, so after a reboot their whole value is new.
        """
        if value is None or self.baseline is None:
            return None
        was = self.baseline.counters.get(f"{subject}|{counter}")
        rebooted = self.boot_id is not None and self.baseline.boot_id not in (None, self.boot_id)
        if was is None:
            return None
        if not lifetime and (rebooted or value < was.value):
            since_boot = self.uptime_s if rebooted else None
            elapsed = self.taken_at - was.at
            return Growth(value, min(elapsed, since_boot or elapsed), restarted=True)
        return Growth(max(0, value - was.value), max(0.0, self.taken_at - was.at))

    def events(self, *kinds: str, within_s: float | None = None) -> list[Event]:
        """Remembered and new events of these kinds, oldest first, that nobody has accepted yet.

        Without `within_s` only those of the present boot: a reboot ends what they told.
        """
        remembered = self.baseline.events if self.baseline else ()
        accepted = self.baseline.accepted_at if self.baseline else 0.0
        found = [
            event
            for event in (*remembered, *self.new_events())
            if event.kind in kinds
            and event.at > accepted
            and (
                event.boot_id == self.boot_id
                if within_s is None
                else event.at >= self.taken_at - within_s
            )
        ]
        return sorted(found, key=lambda event: event.at)

    def new_events(self) -> list[Event]:
        """The kernel log's events since the baseline, stamped with unix time and the last job."""
        if self.kernel_log is None:
            return []
        last = self.baseline.last_job if self.baseline else None
        booted = self.taken_at - (self.uptime_s or 0.0)
        return [
            Event(
                kind=event.kind,
                at=round(booted + event.uptime_s, 3),
                boot_id=self.boot_id,
                code=event.code,
                subject=event.subject,
                message=event.message,
                job_id=last.job_id if last else None,
                uid=last.uid if last else None,
                count=event.count,
            )
            for event in self.kernel_log.events
        ]

    def owned_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs that the job owns; empty where there is no job or it names none."""
        if self.job is None or self.gpus is None:
            return ()
        minors, uuids = self.job.gpu_minors, self.job.gpu_uuids
        return tuple(
            gpu
            for gpu in self.gpus
            if (minors is not None and gpu.minor_number in minors)
            or (uuids is not None and gpu.uuid in uuids)
        )


def decode_snapshot(data: bytes) -> Snapshot:
    """A snapshot from its JSON. Raises ValueError that says what is wrong with the file."""
    from healthcheck.strict_json import decode_json

    try:
        head = decode_json(data)
        if not isinstance(head, dict) or head.get("version") != SNAPSHOT_VERSION:
            found = head.get("version") if isinstance(head, dict) else type(head).__name__
            raise ValueError(
                f"expected a snapshot of version {SNAPSHOT_VERSION}, found {found!r}; "
                "make it again with `flightcheck check --save`"
            )
        return msgspec.convert(head, Snapshot)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not a snapshot: {error}") from error


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The snapshot as indented JSON, that a person can read and a later release can replay."""
    return bytes(msgspec.json.format(msgspec.json.encode(snapshot), indent=1))
