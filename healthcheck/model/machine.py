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


class KernelLog(msgspec.Struct, frozen=True):
    """What the kernel log said since the last reading, and where that reading ended.

    `next_sequence` is where the next reading begins. `lost_records`: the ring buffer had already
    dropped that many records that nobody had read.
    """

    next_sequence: int
    events: tuple[KernelEvent, ...] = ()
    lost_records: int = 0


class PowerSupply(msgspec.Struct, frozen=True):
    """A power supply or a power alarm. `state`: ok, failed, input-lost, absent, alarm, unknown."""

    name: str
    state: str
    origin: str
    detail: str | None = None


class Memory(msgspec.Struct, frozen=True):
    """Main memory, in bytes."""

    total_bytes: int
    available_bytes: int | None = None


class MemoryController(msgspec.Struct, frozen=True):
    """One EDAC memory controller; error counts since its driver was loaded."""

    name: str
    corrected: int | None = None
    uncorrected: int | None = None


class Filesystem(msgspec.Struct, frozen=True):
    """One mount point that the profile or the configuration names.

    `state`: ok, missing (no such path), not-mounted, stale (ESTALE, EIO, ENOTCONN), hung (no
    answer within the time given). Sizes in bytes.
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
    """Process table figures: zombies and tasks in uninterruptible sleep (D)."""

    total: int
    zombies: int
    blocked: int
    blocked_names: tuple[str, ...] = ()
    """`pid name` of up to sixteen blocked processes."""
