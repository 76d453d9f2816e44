"""Probes: host → facts, one file a source. They may fail; they never judge.

A probe is a module with `read(ask) -> {field: facts}`, where fields are those of the snapshot
and facts are its structs or plain data of the same shape. Reading is kept apart from pure
`parse_*` functions that a test feeds with text. Which probe gives which fields stands here, so
that a run starts no probe that none of its checks needs.
"""

PROBES: dict[str, tuple[str, ...]] = {
    "nvml": ("driver", "gpus", "p2p"),
    "pci": ("pci",),
    "infiniband": ("hcas",),
    "kernel_log": ("kernel_log",),
    "power": ("power_supplies",),
    "system": ("memory", "memory_controllers", "clock", "modules"),
    "storage": ("filesystems", "services"),
    "processes": ("processes",),
}

PLANNED = ("storage",)
"""Probes that need to know what the profile and the configuration ask for."""
