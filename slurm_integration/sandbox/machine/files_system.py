"""Sensors, memory controllers, services, settings, and the answers that are not files."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from healthcheck.config import CheckSettings, Config
from healthcheck.host import ANSWERS
from slurm_integration.sandbox.machine.describe import services_of
from slurm_integration.sandbox.machine.description import Machine, Mount
from slurm_integration.sandbox.machine.tree import Link
from slurm_integration.sandbox.machine.types import NODE_TYPES

CONFIG = "etc/flightcheck/flightcheck.toml"
ALARMS = ("power1_alarm", "power1_crit_alarm", "in1_min_alarm", "in1_max_alarm", "fan1_alarm")


def files(machine: Machine) -> Iterator[tuple[str, bytes | Link]]:
    """Everything about the chassis and the operating system."""
    yield ANSWERS, (json.dumps(answers(machine), indent=1, sort_keys=True) + "\n").encode()
    yield "etc/hostname", f"{machine.node}\n".encode()
    yield CONFIG, settings_text(machine).encode()
    yield from _hwmon(machine)
    yield from _edac(machine)
    yield "dev/ipmi0", b""
    for unit, pids in _units(machine).items():
        group = f"sys/fs/cgroup/system.slice/{unit}.service"
        yield f"{group}/cgroup.procs", "".join(f"{pid}\n" for pid in pids).encode()
        yield f"{group}/cgroup.events", b"populated 1\nfrozen 0\n"
        yield (
            f"run/systemd/units/invocation:{unit}.service",
            Link(f"{uuid5(NAMESPACE_DNS, unit).hex}"),
        )
    yield "sys/fs/cgroup/cgroup.controllers", b"cpuset cpu io memory pids\n"


def settings_of(machine: Machine) -> Config:
    """What the machine's own site asks for besides its profile."""
    kind = NODE_TYPES[machine.type]
    checks = {"memory-size": CheckSettings(limits={"min_gib": kind.memory_gib})}
    if kind.gpu is not None:
        wanted = ["nvidia", "nvidia_uvm", *(["nvidia_peermem"] if kind.nic else [])]
        checks["kernel-modules"] = CheckSettings(limits={"modules": wanted})
    return Config(mounts=("/", "/scratch", "/home"), services=services_of(kind), checks=checks)


def settings_text(machine: Machine) -> str:
    """The same as lines of a flightcheck.toml; top-level keys first."""
    settings = settings_of(machine)
    lines = [
        "# What the site of these simulated nodes asks for besides their profile.",
        f"mounts = {json.dumps(settings.mounts)}",
        f"services = {json.dumps(settings.services)}",
    ]
    for name, check in settings.checks.items():
        lines += ["", f"[checks.{name}.limits]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in check.limits.items()]
    return "\n".join(lines) + "\n"


def _edac(machine: Machine) -> Iterator[tuple[str, bytes | Link]]:
    for bank in machine.banks:
        folder = f"sys/devices/system/edac/mc/{bank.name}"
        counts = {"ce": bank.corrected, "ue": bank.uncorrected}
        yield f"{folder}/mc_name", b"i10nm_edac\n"
        yield f"{folder}/size_mb", b"262144\n"
        yield f"{folder}/dimm0/dimm_label", f"CPU_SrcID#0_MC#{bank.name[2:]}_DIMM#0\n".encode()
        for kind, count in counts.items():
            yield f"{folder}/{kind}_count", f"{count}\n".encode()
            yield f"{folder}/{kind}_noinfo_count", b"0\n"
            yield f"{folder}/dimm0/dimm_{kind}_count", f"{count}\n".encode()


def _hwmon(machine: Machine) -> Iterator[tuple[str, bytes | Link]]:
    cpu, power = "sys/devices/platform/coretemp.0/hwmon/hwmon0", "sys/devices/acpi/hwmon/hwmon1"
    yield "sys/class/hwmon/hwmon0", Link("../../devices/platform/coretemp.0/hwmon/hwmon0")
    yield f"{cpu}/name", b"coretemp\n"
    yield f"{cpu}/temp1_input", b"41000\n"
    yield f"{cpu}/temp1_crit_alarm", b"0\n"
    yield "sys/class/hwmon/hwmon1", Link("../../devices/acpi/hwmon/hwmon1")
    yield f"{power}/name", b"pmbus\n"
    yield f"{power}/power1_input", b"1840000000\n"
    yield f"{power}/in1_input", b"230000\n"
    for alarm in ALARMS:
        yield f"{power}/{alarm}", b"1\n" if alarm in machine.hwmon_alarms else b"0\n"


def _units(machine: Machine) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in machine.tasks:
        if task.service:
            found.setdefault(task.service, []).append(task.pid)
    return found


def answers(machine: Machine) -> dict[str, Any]:
    """host.json: what the machine says to commands and system calls."""
    return {
        "node": machine.node,
        "clock": machine.clock,
        "space": {mount.path: _space(mount) for mount in machine.mounts},
        "commands": {
            "ipmitool -c sdr type Power Supply": {"code": 0, "stdout": _sdr(machine, ",")},
            "ipmitool sdr type Power Supply": {"code": 0, "stdout": _sdr(machine, " | ")},
        },
    }


def _space(mount: Mount) -> dict[str, Any] | str:
    if mount.answer is not None:
        return mount.answer
    return {
        "size_bytes": mount.size_bytes,
        "free_bytes": mount.free_bytes,
        "inodes": mount.inodes,
        "inodes_free": mount.inodes_free,
        "read_only": "ro" in mount.options.split(","),
    }


def _sdr(machine: Machine, between: str) -> str:
    rows = (
        (s.name, f"{s.number:02X}h", s.status, f"10.{n}", s.text)
        for n, s in enumerate(machine.supplies, start=1)
    )
    return "".join(between.join(row) + "\n" for row in rows)
