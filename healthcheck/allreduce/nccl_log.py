"""NCCL's own log (NCCL_DEBUG=INFO): which transports and algorithms were really used.

Line forms of NCCL 2.12 to 2.27; everything else is passed over.
"""

import re
from collections import Counter

import msgspec

ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
"""By number, as NCCL 2.19 to 2.23 print them (nccl_common.h)."""
MAX_TEXT = 400
_VERSION = re.compile(r"NCCL version (\d[\w.+]*)")
_CHANNEL = re.compile(r"NCCL INFO Channel [\d/]+ ?: .{3,80}? via ([A-Za-z0-9_/ -]+)")
_ALGORITHM = re.compile(
    r"NCCL INFO (?:AllReduce: +)?(\d+) Bytes -> Algo (\w+) proto (\w+)", re.IGNORECASE
)
_NVLS = re.compile(r"(\d+) nvls channels")
_MULTICAST = re.compile(r"NVLS multicast support is (not )?available")
_WARN = re.compile(r"NCCL WARN (.*)")
_FAILURE = re.compile(r"NCCL INFO .*failed|\b(?:CUDA|NCCL) (?:error|failure)\b", re.IGNORECASE)
_ERROR = re.compile(r"Error|Exception|Traceback|Segmentation fault|terminate called")


class NcclLog(msgspec.Struct, frozen=True):
    """What the log says. `transports` counts channels by transport ("P2P/IPC", "NET/IB").

    `algorithms` maps a message size to the algorithm NCCL chose for it.
    """

    version: str | None = None
    transports: dict[str, int] = {}
    algorithms: dict[int, str] = {}
    nvls_channels: int = 0
    multicast: bool | None = None
    warnings: tuple[str, ...] = ()


def parse_nccl_log(text: str) -> NcclLog:
    """The log of all ranks together, in any order, as one file."""
    transports: Counter[str] = Counter()
    algorithms: dict[int, str] = {}
    warnings: dict[str, None] = {}
    channels = 0
    for full in text.splitlines():
        line = full[:4096]
        if found := _CHANNEL.search(line):
            transports[_transport(found[1])] += 1
        elif found := _ALGORITHM.search(line):
            algorithms[int(found[1][:18])] = _algorithm(found[2])
        elif found := _WARN.search(line):
            warnings.setdefault(found[1].strip()[:MAX_TEXT])
        elif found := _NVLS.search(line):
            channels = max(channels, int(found[1][:6]))
    version = _VERSION.search(text)
    multicast = _MULTICAST.search(text)
    return NcclLog(
        version=version[1] if version else None,
        transports=dict(transports),
        algorithms=algorithms,
        nvls_channels=channels,
        multicast=None if multicast is None else not multicast[1],
        warnings=tuple(warnings)[:20],
    )


def _transport(text: str) -> str:
    """`P2P/IPC/read` → `P2P`, `NET/IB/3/GDRDMA` → `NET/IB`, `SHM/direct/direct` → `SHM`."""
    parts = text.strip().split("/")
    if parts[0] == "NET" and len(parts) > 1:
        # NET/IBext_v8 is a plugin for InfiniBand, NET/Socket is TCP.
        return "NET/IB" if parts[1].startswith("IB") else f"NET/{parts[1]}"
    return parts[0]


def _algorithm(word: str) -> str:
    if word.isdigit():
        return ALGORITHMS[int(word)] if int(word) < len(ALGORITHMS) else word
    return word.upper()


def complaints(text: str, most: int = 12) -> tuple[str, ...]:
    """The lines of a child's output that say what went wrong; the last ones of many."""
    found: dict[str, None] = {}
    for full in text.splitlines():
        line = full.strip()[:MAX_TEXT]
        if any(form.search(line) for form in (_WARN, _FAILURE, _ERROR)):
            found.setdefault(line)
    return tuple(found)[-most:]
