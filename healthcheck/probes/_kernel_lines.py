"""What a line of the kernel log means: pure text → event. Loaded only where a line may matter.

Wordings are those of the drivers' own sources: NVIDIA's open-gpu-kernel-modules, and of Linux
arch/x86/kernel/cpu/mce, drivers/edac, drivers/acpi/apei/ghes.c, drivers/pci/pcie/{aer,dpc}.c,
drivers/pci/hotplug/pciehp_ctrl.c, drivers/net/ethernet/mellanox/mlx5/core/{health,events}.c.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from healthcheck.model import KernelEvent
from healthcheck.probes._storm import Storm

MAX_MESSAGE = 400
KERNEL_FACILITY = 0
MAX_GPUS = 64

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

_XID = re.compile(r"NVRM: Xid \(([^)]{1,100})\): (\d{1,6})(?:, ?(.*))?$")
_GPU_AT = re.compile(r"NVRM: GPU at ([^ ]{7,40}): (GPU-[0-9a-f-]{36})", re.IGNORECASE)
_PID = re.compile(r"pid='?(\d{1,10})\b'?, name=([^,]{1,64}),")
_SXID = re.compile(r"nvidia-nvswitch\d*: SXid \(([^)]{1,100})\): (\d{1,6})(?:, ?(.*))?$")
_NIC = re.compile(
    r"mlx5_core ([0-9a-f:.]{7,20})(?: [\w.@-]{1,40})?: (?:\w+:\d+:\(pid \d+\): )?(.*)"
)
_NIC_POWER = re.compile(
    r"Detected insufficient power on the PCIe slot|Power budget exceeded"
    r"|powered down due to insufficient"
)
_NIC_HEALTH = re.compile(
    r"health compromised|Fatal error \d+ detected|Health issue observed|assert_var\[0\]"
    r"|handling bad device|health recovery|FW fatal|firmware internal error|local catastrophic"
    r"|High temperature on sensors|Port module event\[error\]|PCI slot is unavailable"
    r"|Link (?:up|down)\b|enter_error_state|device is in error state|mlx5_error_sw_reset",
    re.IGNORECASE,
)
_PCIE = re.compile(
    r"[\w-]+ ([0-9a-f:.]{7,20}): (?:"
    r"(AER: (?:Multiple )?(?:Corrected|Correctable|Uncorrected|Uncorrectable)\b.*)"
    r"|((?:AER: )?PCIe Bus Error: .*)|(\s*\[ ?\d+\] (?:Surprise Down|SDES)\b.*)"
    r"|(DPC: (?:containment event|unmasked uncorrectable).*)"
    r"|(pciehp: Slot\(.{1,40}\): (?:Link Down|Link Up|Card not present|Attention button pressed).*)"
    r"|(AER: device recovery failed.*|.*Link Down\b.*))"
)
_MACHINE_CHECK = re.compile(
    r"mce: \[Hardware Error\]: (?:CPU \d+: Machine Check|Machine check events logged)"
    r"|mce: (?:Uncorrected hardware memory error|CMCI storm detected)|MCE: Killing"
    r"|(?:\{\d+\})?\[Hardware Error\]: *event severity: (?!info)"
    r"|\[Hardware Error\]: *(?:Corrected error|Uncorrected, |Deferred error|System Fatal error)"
)
_MEMORY = re.compile(r"EDAC (?:[\w ]{1,24} )?(MC\d{1,3}): (\d{1,9}) ([CU]E)\b|Memory failure: 0x")
_NO_POWER = re.compile(r"NVRM: .*necessary power cables")


class _Reading(NamedTuple):
    """A line understood: the fields of an event that come out of its text."""

    kind: str
    message: str
    code: int | None = None
    subject: str = ""
    pid: int | None = None
    process: str | None = None
    times: int = 1


class Lines:
    """Takes candidate records in the order of the log: storms folded, names of GPUs resolved."""

    def __init__(self) -> None:
        self._storm = Storm()
        self._addresses: dict[str, str] = {}

    def add(self, found: "re.Match[bytes]") -> None:
        """Understand one record: priority, sequence number, microseconds and text."""
        if int(found[1]) >> 3 != KERNEL_FACILITY:
            return
        text = clean(found[4])
        self._learn(text)
        told = understand(text)
        if told is not None:
            self._storm.add(
                KernelEvent(
                    kind=told.kind,
                    sequence=int(found[2]),
                    uptime_s=int(found[3]) / 1e6,
                    message=told.message[:MAX_MESSAGE],
                    code=told.code,
                    subject=told.subject,
                    pid=told.pid,
                    process=told.process,
                    count=told.times,
                )
            )

    def learn(self, found: "re.Match[bytes]") -> None:
        """Take from a record that was read before only which GPU sits where."""
        if b"GPU at " in found[4] and int(found[1]) >> 3 == KERNEL_FACILITY:
            self._learn(clean(found[4]))

    def _learn(self, text: str) -> None:
        at = _GPU_AT.match(text)
        if at is not None and len(self._addresses) < MAX_GPUS:
            self._addresses[at[2].lower()] = pci_address(at[1])

    def events(self) -> tuple[KernelEvent, ...]:
        """All that was understood."""
        return self._storm.events(self._addresses)


def clean(raw: bytes) -> str:
    """Text without anything that could act on a terminal or hide from a reader."""
    return _UNSEEN.sub(" ", raw.decode("utf-8", "replace")).rstrip()


def pci_address(text: str) -> str:
    """`PCI:00000000:B3:00` → `0000:b3:00.0`, as in sysfs; a GPU's UUID in lower case; or ""."""
    found = _ADDRESS.search(text)
    uuid = _UUID.search(text)
    if uuid is not None and (found is None or found.start() > uuid.start()):
        return uuid[0].lower()
    if found is None:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function or 0}".lower()


def understand(text: str) -> _Reading | None:
    """What one cleaned line says, or None where it is of no concern to us."""
    for begins, reader in _READERS:
        if text.startswith(begins):
            return reader(text)
    return _hardware(text) if text.startswith("{") else _pcie(text)


def _driver(text: str) -> _Reading | None:
    found = _XID.match(text)
    if found is None:
        lacks = _NO_POWER.match(text)
        return _Reading("power", text[6:], subject=pci_address(text)) if lacks else None
    rest = found[3] or ""
    who = _PID.match(rest)
    return _Reading(
        "xid",
        rest,
        int(found[2]),
        pci_address(found[1]),
        int(who[1]) if who else None,
        who[2] if who else None,
    )


def _switch(text: str) -> _Reading | None:
    found = _SXID.match(text)
    if found is None:
        return None
    return _Reading("sxid", found[3] or "", int(found[2]), pci_address(found[1]))


def _nic(text: str) -> _Reading | None:
    found = _NIC.match(text)
    if found is None:
        return None
    said = found[2]
    subject = pci_address(found[1])
    if _NIC_POWER.search(said):
        return _Reading("nic-power", said, subject=subject)
    if _NIC_HEALTH.search(said):
        return _Reading("nic", said, subject=subject)
    return _pcie(text)


def _hardware(text: str) -> _Reading | None:
    if not _MACHINE_CHECK.match(text):
        return None
    return _Reading("mce", text, subject="cpu")


def _memory(text: str) -> _Reading | None:
    found = _MEMORY.match(text)
    if found is None:
        return None
    if found[1] is None:
        return _Reading("memory", text, subject="memory")
    return _Reading("memory", text, subject=found[1].lower(), times=max(1, int(found[2])))


def _pcie(text: str) -> _Reading | None:
    found = _PCIE.match(text)
    if found is None:
        return None
    said = next(group for group in found.groups()[1:] if group is not None)
    return _Reading("pcie", said.strip(), subject=pci_address(found[1]))


_READERS: tuple[tuple[str, Callable[[str], _Reading | None]], ...] = (
    ("NVRM: ", _driver),
    ("nvidia-nvswitch", _switch),
    ("mlx5_core ", _nic),
    ("mce: ", _hardware),
    ("MCE: ", _hardware),
    ("[Hardware", _hardware),
    ("EDAC ", _memory),
    ("Memory failure", _memory),
)
