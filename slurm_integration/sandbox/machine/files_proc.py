"""/proc and /dev/kmsg: the kernel's view of the machine."""

import uuid
from collections.abc import Iterator

from slurm_integration.sandbox.machine.description import LogLine, Machine, Task
from slurm_integration.sandbox.machine.tree import Link


def boot_id(machine: Machine) -> str:
    """An id for each boot of each node."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{machine.node}/boot/{machine.boots}"))


def files(machine: Machine) -> Iterator[tuple[str, bytes | Link]]:
    """The files of /proc that a health check looks at, and the kernel log."""
    yield "proc/sys/kernel/random/boot_id", f"{boot_id(machine)}\n".encode()
    yield "proc/sys/kernel/hostname", f"{machine.node}\n".encode()
    yield "proc/uptime", f"{machine.uptime_s:.2f} {machine.uptime_s * machine.cpus:.2f}\n".encode()
    yield "proc/meminfo", _meminfo(machine).encode()
    yield "proc/modules", _modules(machine.modules).encode()
    yield "proc/mounts", _mounts(machine).encode()
    yield "proc/self/mounts", _mounts(machine).encode()
    yield "proc/self/mountinfo", _mountinfo(machine).encode()
    running = sum(task.state == "R" for task in machine.tasks)
    blocked = sum(task.state == "D" for task in machine.tasks)
    yield "proc/loadavg", f"0.31 0.27 0.22 {running + 1}/{len(machine.tasks)} 40711\n".encode()
    yield (
        "proc/stat",
        (
            f"cpu  184220 0 91022 98211004 1022 0 411 0 0 0\nbtime 1764500000\nprocesses 40711\n"
            f"procs_running {running + 1}\nprocs_blocked {blocked}\n"
        ).encode(),
    )
    for task in machine.tasks:
        yield f"proc/{task.pid}/stat", _stat(task).encode()
        if task.state == "Z":
            continue  # a thousand of them would be four thousand files
        yield f"proc/{task.pid}/comm", f"{task.name[:15]}\n".encode()
        yield f"proc/{task.pid}/cmdline", f"/usr/sbin/{task.name}\0".encode()
        yield f"proc/{task.pid}/status", _status(task).encode()
    yield "dev/kmsg", "".join(records(machine.log)).encode()


def records(log: tuple[LogLine, ...]) -> Iterator[str]:
    """Records as /dev/kmsg gives them (Documentation/ABI/testing/dev-kmsg)."""
    for sequence, line in enumerate(log):
        yield f"{line.priority},{sequence},{round(line.uptime_s * 1e6)},-;{line.text}\n"
        for field in line.fields:
            yield f" {field}\n"


def _meminfo(machine: Machine) -> str:
    total, available = machine.memory_kib, machine.memory_available_kib
    rows = {
        "MemTotal": total,
        "MemFree": available - 4_194_304,
        "MemAvailable": available,
        "Buffers": 412_004,
        "Cached": 9_120_448,
        "SwapTotal": 0,
        "SwapFree": 0,
    }
    lines = [f"{name + ':':<16}{value:>9} kB" for name, value in rows.items()]
    lines += ["HugePages_Total:       0", "HardwareCorrupted:     0 kB"]
    return "\n".join(lines) + "\n"


def _modules(names: tuple[str, ...]) -> str:
    return "".join(f"{name} 1048576 1 - Live 0xffffffffc0000000\n" for name in names)


def _mounts(machine: Machine) -> str:
    kernel = "proc /proc proc rw,nosuid,nodev,noexec 0 0\nsysfs /sys sysfs rw,nosuid 0 0\n"
    return kernel + "".join(
        f"{m.device} {m.path} {m.kind} {m.options} 0 0\n" for m in machine.mounts
    )


def _mountinfo(machine: Machine) -> str:
    return "".join(
        f"{30 + n} 1 0:{40 + n} / {m.path} {m.options.partition(',')[0]} shared:{n} - "
        f"{m.kind} {m.device} {m.options}\n"
        for n, m in enumerate(machine.mounts, start=1)
    )


def _stat(task: Task) -> str:
    parent = 0 if task.pid < 3 else 1
    head = f"{task.pid} ({task.name[:15]}) {task.state} {parent} {task.pid} {task.pid} 0 -1 4194560"
    return f"{head} 812 0 2 0 41 22 0 0 20 0 1 0 {500 + task.pid} 104857600 2048 {2**64 - 1}\n"


def _status(task: Task) -> str:
    words = {"S": "S (sleeping)", "I": "I (idle)", "D": "D (disk sleep)", "Z": "Z (zombie)",
             "R": "R (running)"}  # fmt: skip
    uids = f"{task.uid}\t{task.uid}\t{task.uid}\t{task.uid}"
    return (
        f"Name:\t{task.name[:15]}\nState:\t{words[task.state]}\nPid:\t{task.pid}\nUid:\t{uids}\n"
        f"Gid:\t{uids}\nVmRSS:\t    8192 kB\nThreads:\t1\n"
    )
