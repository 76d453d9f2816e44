"""The machine around the GPUs: power supplies, memory, storage, services, clock, processes."""

from msgspec.structs import replace

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import log
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass, unchanged
from slurm_integration.sandbox.machine.description import Machine, Mount, Task

_ANY = ("always",)


def _mount(machine: Machine, path: str, **changes: object) -> Machine:
    return replace(
        machine,
        mounts=tuple(replace(m, **changes) if m.path == path else m for m in machine.mounts),
    )


def _without_service(machine: Machine, name: str) -> Machine:
    return replace(machine, tasks=tuple(t for t in machine.tasks if t.service != name))


@fault("psu-failed", "power-supplies", Severity.WARN, Action.REPLACE, needs=_ANY, stage="sweep")
def psu_failed(machine: Machine, target: Target) -> Machine:
    """The management controller reports a failed power supply."""
    first, *others = machine.supplies
    bad = replace(first, text="Presence detected, Failure detected")
    return replace(machine, supplies=(bad, *others))


@fault("psu-input-lost", "power-supplies", Severity.WARN, needs=_ANY, stage="sweep")
def psu_input_lost(machine: Machine, target: Target) -> Machine:
    """A power supply has lost its input: cord, feed or breaker."""
    first, *others = machine.supplies
    bad = replace(first, text="Presence detected, Power Supply AC lost")
    return replace(machine, supplies=(bad, *others))


@fault("power-alarm", "power-supplies", Severity.WARN, needs=_ANY)
def power_alarm(machine: Machine, target: Target) -> Machine:
    """A power sensor of the kernel (hwmon) rings."""
    return replace(machine, hwmon_alarms=("in1_min_alarm",))


@fault("memory-short", "memory-size", action=Action.DRAIN, needs=_ANY)
def memory_short(machine: Machine, target: Target) -> Machine:
    """A quarter of the main memory is missing: modules were switched off at boot."""
    return replace(machine, memory_kib=machine.memory_kib * 3 // 4,
                   memory_available_kib=machine.memory_available_kib * 3 // 4)  # fmt: skip


@fault("edac-ue", "memory-errors", action=Action.REPLACE, needs=_ANY)
def edac_ue(machine: Machine, target: Target) -> Machine:
    """A memory controller counts an uncorrected error since the last look."""
    first, *others = machine.banks
    return replace(machine, banks=(replace(first, uncorrected=1), *others))


@fault("edac-ce-storm", "memory-errors", Severity.WARN, needs=_ANY)
def edac_ce_storm(machine: Machine, target: Target) -> Machine:
    """A memory controller corrects hundreds of errors an hour."""
    first, *others = machine.banks
    return replace(machine, banks=(replace(first, corrected=700), *others))


def _old_edac(machine: Machine, target: Target) -> Machine:
    first, *others = machine.banks
    return replace(machine, banks=(replace(first, corrected=5_000, uncorrected=1), *others))


@must_pass("edac-old", needs=_ANY, past=_old_edac)
def edac_old(machine: Machine, target: Target) -> Machine:
    """Memory errors that are all older than the last look."""
    return unchanged(machine, target)


@fault("mce-uncorrected", "machine-check", action=Action.DRAIN, needs=_ANY)
def mce_uncorrected(machine: Machine, target: Target) -> Machine:
    """A processor reports an uncorrected memory error (machine check)."""
    return log(
        machine,
        "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: be00000000010091",
        "mce: [Hardware Error]: TSC 0 ADDR 3f4c1b2c80 MISC 200001c020c02086",
        "Memory failure: 0x3f4c1b2: recovery action for dirty LRU page: Recovered",
        priority=0,
    )


@fault("mce-corrected", "machine-check", Severity.WARN, needs=_ANY)
def mce_corrected(machine: Machine, target: Target) -> Machine:
    """A memory controller reports a corrected error in the kernel log."""
    return log(
        machine,
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_DIMM#0 (channel:0 slot:0 page:0x3f4c"
        "1b2 offset:0xc80 grain:32 syndrome:0x0)",
    )


@fault("disk-full", "filesystem-space", action=Action.DRAIN, needs=_ANY)
def disk_full(machine: Machine, target: Target) -> Machine:
    """The root file system has 100 MB left."""
    return _mount(machine, "/", free_bytes=100_000_000)


@fault("inodes-full", "filesystem-space", action=Action.DRAIN, needs=_ANY)
def inodes_full(machine: Machine, target: Target) -> Machine:
    """The root file system has room and no inode left for it."""
    return _mount(machine, "/", inodes_free=12)


@fault("mount-missing", "mounts", action=Action.DRAIN, needs=_ANY)
def mount_missing(machine: Machine, target: Target) -> Machine:
    """The scratch file system is not mounted."""
    return replace(machine, mounts=tuple(m for m in machine.mounts if m.path != "/scratch"))


@fault("stale-mount", "mounts", action=Action.REBOOT, needs=_ANY)
def stale_mount(machine: Machine, target: Target) -> Machine:
    """The home directories answer "stale file handle"."""
    return _mount(machine, "/home", answer="stale")


@fault("hung-mount", "mounts", action=Action.REBOOT, needs=_ANY)
def hung_mount(machine: Machine, target: Target) -> Machine:
    """The home directories' server is gone: whoever asks never gets an answer."""
    return _mount(machine, "/home", answer="hang")


@fault("root-read-only", "mounts", action=Action.REBOOT, needs=_ANY)
def root_read_only(machine: Machine, target: Target) -> Machine:
    """The kernel turned the root file system read-only after disk errors."""
    return _mount(machine, "/", options="ro,relatime")


@must_pass("foreign-mount-hung", needs=_ANY)
def foreign_mount_hung(machine: Machine, target: Target) -> Machine:
    """A mount that no profile names hangs: it is never touched."""
    other = Mount("/mnt/old", "nas99:/old", "nfs4", "rw,hard", 1 << 40, 1 << 39, answer="hang")
    return replace(machine, mounts=(*machine.mounts, other))


@fault("service-down", "services", action=Action.DRAIN, needs=("nvswitch", "manager"))
def service_down(machine: Machine, target: Target) -> Machine:
    """nvidia-fabricmanager is not running."""
    return _without_service(machine, "nvidia-fabricmanager")


@fault("persistenced-down", "services", action=Action.DRAIN)
def persistenced_down(machine: Machine, target: Target) -> Machine:
    """nvidia-persistenced is not running."""
    return _without_service(machine, "nvidia-persistenced")


@fault("clock-unsynchronised", "clock", Severity.WARN, needs=_ANY, stage="sweep")
def clock_unsynchronised(machine: Machine, target: Target) -> Machine:
    """No time service keeps the clock."""
    return replace(machine, clock={"synchronised": False, "maximum_error_s": 16.0,
                                   "estimated_error_s": 16.0, "offset_s": 0.0})  # fmt: skip


@fault("module-missing", "kernel-modules", action=Action.DRAIN, needs=("gpu", "ib"))
def module_missing(machine: Machine, target: Target) -> Machine:
    """nvidia_peermem is not loaded: the network can't reach GPU memory directly."""
    left = tuple(name for name in machine.modules if name != "nvidia_peermem")
    return replace(machine, modules=left)


@fault("zombies", "processes", Severity.WARN, needs=_ANY, stage="sweep")
def zombies(machine: Machine, target: Target) -> Machine:
    """Twelve hundred zombies fill the process table."""
    dead = tuple(Task(50_000 + n, "python3", "Z") for n in range(1_200))
    return replace(machine, tasks=(*machine.tasks, *dead))


@fault("nvidia-smi-stuck", "processes", Severity.WARN, Action.REBOOT, stage="sweep")
def nvidia_smi_stuck(machine: Machine, target: Target) -> Machine:
    """An nvidia-smi hangs in the kernel: the driver gives no answer."""
    return replace(machine, tasks=(*machine.tasks, Task(33_021, "nvidia-smi", "D")))
