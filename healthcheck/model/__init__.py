"""The nouns of flightcheck: frozen, typed, JSON both ways."""

from healthcheck.model.fabric import Aer, Hca, PciDevice, Port
from healthcheck.model.gpu import (
    Driver,
    Fabric,
    Gpu,
    GpuProcess,
    NvLink,
    NvmlError,
    P2pPair,
)
from healthcheck.model.job import Job
from healthcheck.model.judgement import (
    Action,
    Ending,
    Finding,
    NotApplicable,
    Outcome,
    Report,
    Severity,
    Unmeasured,
    Verdict,
    fail,
    info,
    verdict_of,
    warn,
)
from healthcheck.model.machine import (
    Clock,
    Filesystem,
    KernelEvent,
    KernelLog,
    Memory,
    MemoryController,
    PowerSupply,
    Processes,
)
from healthcheck.model.snapshot import (
    Baseline,
    Counter,
    Event,
    Growth,
    LastJob,
    Problem,
    Snapshot,
)

__all__ = [
    "Action", "Aer", "Baseline", "Clock", "Counter", "Driver", "Ending", "Event", "Fabric",
    "Filesystem", "Finding", "Gpu", "GpuProcess", "Growth", "Hca", "Job", "KernelEvent",
    "KernelLog", "LastJob", "Memory", "MemoryController", "NotApplicable", "NvLink", "NvmlError",
    "Outcome", "P2pPair", "PciDevice", "Port", "PowerSupply", "Problem", "Processes", "Report",
    "Severity", "Snapshot", "Unmeasured", "Verdict", "fail", "info", "verdict_of", "warn",
]  # fmt: skip
