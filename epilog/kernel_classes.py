"""Which class a kernel event belongs to, and whether it ends a job by itself. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from epilog.model import Role
from healthcheck.checks._xid_rules import Case, decide
from healthcheck.knowledge import sxid, xid
from healthcheck.model import Event, Severity

STORM = 5
"""So many lines of corrected PCIe errors are a storm; a few are ordinary."""
REPEAT = 2

_XIDS: dict[str, frozenset[int]] = {
    "hardware/gpu-ecc": frozenset({48, 63, 64, 92, 94, 95, 140, 156, 157, 171, 172}),
    "hardware/gpu-off-bus": frozenset({79}),
    "hardware/gpu-nvlink": frozenset({74, 121, 136, 137, *range(144, 151), 155}),
    "hardware/gpu-gsp": frozenset({119, 120}),
    "hardware/gpu-pcie": frozenset({54, 167}),
    "hardware/gpu-hang": frozenset({46, 62, 109, 110, 143, 158, 169}),
    "infrastructure/driver": frozenset({78}),
    "user/illegal-access": frozenset({8, 11, 13, 25, 31, 32, 43, 68, 69, 80}),
}
_KLASS = {code: klass for klass, codes in _XIDS.items() for code in codes}
_FOLLOWS = frozenset({45, 154})
_FATAL_PCIE = re.compile(
    r"Uncorrected \(Fatal\)|Uncorrectable \(Fatal\)|Surprise Down|device recovery failed"
    r"|Uncorrect\w+ \(Fatal\)|Card not present",
    re.IGNORECASE,
)
_CORRECTED = re.compile(r"Corrected|Correctable", re.IGNORECASE)
_MEMORY_FATAL = re.compile(r"\bUE\b|Uncorrected|Memory failure|Killing|Fatal", re.IGNORECASE)
_BANK = re.compile(
    r"Machine Check(?P<exception> Exception)?: \d+ Bank \d+: (?P<status>[0-9a-f]{16})"
)
UNCORRECTED = 1 << 61
"""IA32_MCi_STATUS.UC, Intel SDM volume 3 chapter 16; AMD's MCA_STATUS has it at the same place."""
_LINK = re.compile(r"\bLink (?:up|down)\b|Port module event\[error\]", re.IGNORECASE)
_LINK_DOWN = re.compile(r"\bLink down\b", re.IGNORECASE)


class Reading(NamedTuple):
    """A line of the kernel's log understood, before it is judged. `at` in unix seconds."""

    line: int
    text: str
    at: float | None
    kind: str
    code: int | None = None
    subject: str = ""
    message: str = ""


class Judged(NamedTuple):
    """A line with its class and role."""

    line: int
    text: str
    at: float | None
    kind: str
    klass: str
    role: Role
    fields: dict[str, str]


def judge(readings: Iterable[Reading]) -> Iterator[Judged]:
    """Class and role of every line that has one; lines of one storm are told once."""
    told = list(_judged_lines(list(readings)))
    cause = next((one.klass for one in told if one.role is Role.ROOT), None)
    for one in told:
        follows = one.role is Role.CONSEQUENCE and cause is not None
        yield one._replace(klass=cause) if follows and cause else one


def _judged_lines(read: list[Reading]) -> Iterator[Judged]:
    storm = sum(r.kind == "pcie" and _corrected(r) for r in read) >= STORM
    lost = any(r.kind == "no-handle" for r in read)
    off = any(r.kind == "xid" and r.code == 79 for r in read)
    stormed = False
    for r in read:
        if r.kind == "pcie" and _corrected(r):
            if stormed:
                continue
            stormed = True
            # The storm alone only needs a look. With the GPU gone it is what took it away.
            role = Role.ROOT if storm and lost and not off else Role.SYMPTOM
            yield _judged(r, "hardware/gpu-pcie", role)
        elif r.kind == "no-handle":
            if storm and not off:
                yield _judged(r, "hardware/gpu-pcie", Role.ROOT)
            else:
                yield _judged(r, "hardware/gpu-off-bus", Role.ROOT)
        else:
            told = _JUDGES[r.kind](r, read) if r.kind in _JUDGES else None
            if told is not None:
                yield _judged(r, *told)


def _judged(r: Reading, klass: str, role: Role) -> Judged:
    fields = {"gpu": r.subject} if r.subject and r.kind in ("xid", "no-handle") else {}
    if r.code is not None:
        fields["code"] = str(r.code)
    return Judged(r.line, r.text, r.at, r.kind, klass, role, fields)


def _corrected(r: Reading) -> bool:
    return bool(_CORRECTED.search(r.message)) and not _FATAL_PCIE.search(r.message)


def _xid(r: Reading, read: list[Reading]) -> tuple[str, Role] | None:
    code = r.code or 0
    klass = _KLASS.get(code)
    if code in _FOLLOWS:
        return klass or "user/illegal-access", Role.CONSEQUENCE
    alike = [o for o in read if o.kind == "xid" and o.code == code and o.subject == r.subject]
    events = tuple(Event("xid", o.at or 0.0, None, code, o.subject, o.message) for o in alike)
    severity = decide(Case(xid(code), r.subject, events, events, ()), REPEAT).severity
    if klass is None:
        return ("hardware/gpu-hang", Role.SYMPTOM) if severity is Severity.FAIL else None
    if klass == "user/illegal-access":
        # Its own entry says whether the GPU itself made the access.
        if severity is Severity.FAIL:
            return "hardware/gpu-hang", Role.ROOT
        return klass, Role.SYMPTOM
    if severity is Severity.FAIL:
        return klass, Role.ROOT
    return (klass, Role.SYMPTOM) if severity is Severity.WARN else (klass, Role.CONSEQUENCE)


def _sxid(r: Reading, read: list[Reading]) -> tuple[str, Role] | None:
    severity = sxid(r.code or 0).severity
    if severity == "benign":
        return None
    root = severity in ("fatal", "always-fatal") or "Fatal" in r.message.replace("Non-fatal", "")
    return "hardware/gpu-nvlink", Role.ROOT if root else Role.SYMPTOM


def _pcie(r: Reading, read: list[Reading]) -> tuple[str, Role] | None:
    fatal = _FATAL_PCIE.search(r.message) or _FATAL_PCIE.search(r.text)
    return "hardware/gpu-pcie", Role.ROOT if fatal else Role.SYMPTOM


def _memory(r: Reading, read: list[Reading]) -> tuple[str, Role] | None:
    bank = _BANK.search(r.message)
    if bank is not None:
        uncorrected = int(bank["status"], 16) & UNCORRECTED or bank["exception"]
        return "hardware/host-memory", Role.ROOT if uncorrected else Role.SYMPTOM
    fatal = _MEMORY_FATAL.search(r.message)
    return "hardware/host-memory", Role.ROOT if fatal else Role.SYMPTOM


def _nic(r: Reading, read: list[Reading]) -> tuple[str, Role] | None:
    if _LINK.search(r.message):
        return "network/ib-link", Role.ROOT if _LINK_DOWN.search(r.message) else Role.CONSEQUENCE
    return "hardware/nic", Role.ROOT


def _power(r: Reading, read: list[Reading]) -> tuple[str, Role] | None:
    return "hardware/gpu-pcie", Role.ROOT


_JUDGES = {
    "xid": _xid,
    "sxid": _sxid,
    "pcie": _pcie,
    "mce": _memory,
    "memory": _memory,
    "nic": _nic,
    "nic-power": _power,
    "power": _power,
}
