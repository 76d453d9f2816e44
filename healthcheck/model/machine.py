"""Facts about the machine around the GPUs: kernel log, power, memory, storage, services."""

import msgspec


class KernelEvent(msgspec.Struct, frozen=True):
    """One line of the kernel log that means something to us.

    `kind`: xid, sxid, mce, memory, nic, nic-power, pcie, power, filesystem. `code` is the Xid or
    SXid number. `subject` is a PCI address or device name, empty where the line names none.
    `uptime_s` is the kernel's stamp (seconds since boot), `message` the text without prefix,
    at most 400 characters, control characters removed.
    """

    kind: str
    sequence: int
    uptime_s: float
    message: str
    code: int | None = None
    subject: str = ""
    pid: int | None = None
    process: str | None = None
    count: int = 1
    """How many lines like this one it stands for: a storm is one event."""
    until_s: float | None = None
    """The kernel's stamp of the last of them, where there is more than one."""


class KernelLog(msgspec.Struct, frozen=True):
    """What the kernel log said since the last reading, and where that reading ended.

    `next_sequence` is where the next reading begins. `lost_records`: the ring buffer had already
    dropped that many records that nobody had read.
    """

    next_sequence: int
    events: tuple[KernelEvent, ...] = ()
    lost_records: int = 0


class PowerSupply(msgspec.Struct, frozen=True):
    """A power supply, or a sensor that speaks about them.

    `state`: ok, failed, input-lost, absent, alarm, redundancy-lost, insufficient (what is left
    does not carry the machine), unknown (the sensor gives no reading). `origin`: hwmon or ipmi.
    `kind`: supply, redundancy (one sensor for all of them), sensor (a figure or an alarm), source
    (not a sensor: the way of asking itself was missing or failed; `detail` says why).
    """

    name: str
    state: str
    origin: str
    detail: str | None = None
    kind: str = "sensor"


class Memory(msgspec.Struct, frozen=True):
    """Main memory, in bytes."""

    total_bytes: int
    available_bytes: int | None = None


class MemoryModule(msgspec.Struct, frozen=True):
    """One memory module (DIMM) on which errors were counted since its driver was loaded."""

    label: str
    corrected: int = 0
    uncorrected: int = 0


class MemoryController(msgspec.Struct, frozen=True):
    """One EDAC memory controller; error counts since its driver was loaded.

    `modules`: those with errors, where the driver tells them apart; they name the suspect.
    """

    name: str
    corrected: int | None = None
    uncorrected: int | None = None
    modules: tuple[MemoryModule, ...] = ()


class Filesystem(msgspec.Struct, frozen=True):
    """The root file system, or a mount point that the profile or the configuration names.

    `state`: ok, missing (no such path), not-mounted, stale (ESTALE, EIO, ENOTCONN, EHOSTDOWN and
    their like), hung (no answer within the time given), unknown (another error; `detail` says
    which). `kind` is the type as in /proc/mounts. Sizes in bytes; `free_bytes` is what a job may
    use, without the part reserved for root.
    """

    path: str
    state: str
    kind: str | None = None
    size_bytes: int | None = None
    free_bytes: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    read_only: bool | None = None
    detail: str | None = None


class Clock(msgspec.Struct, frozen=True):
    """The kernel's own idea of its clock (adjtimex). Offsets in seconds."""

    synchronised: bool
    estimated_error_s: float | None = None
    maximum_error_s: float | None = None
    offset_s: float | None = None


class Processes(msgspec.Struct, frozen=True):
    """Process table figures: zombies, and processes stuck in uninterruptible sleep (D).

    `blocked` counts only those found in D at every one of several looks about a second apart:
    being there for one moment is ordinary I/O.
    """

    total: int
    zombies: int
    blocked: int
    blocked_names: tuple[str, ...] = ()
    """`pid name` of up to sixteen blocked processes."""
