"""What NVIDIA's error codes mean and what we do about them, kept as data.

`xid.tsv` holds every code of NVIDIA's Xid catalogue (1 to 172) with NVIDIA's own action beside
ours, `sxid.tsv` the NVSwitch codes of the Fabric Manager guide. Nothing is read before somebody
asks for a code, since a healthy node never does.
"""

import os

import msgspec

XID_SOURCE = "NVIDIA Xid catalogue (docs.nvidia.com/deploy/xid-errors)"
SXID_SOURCE = "NVIDIA Fabric Manager User Guide, NVSwitch SXid errors"


class Xid(msgspec.Struct, frozen=True):
    """One Xid of the catalogue.

    `category` tells whose fault it usually is, `rule` names an entry of rules.RULES, `ours` is
    our decision in words. `replace_after`: seen in that many lives of a GPU (the time between
    two reboots or resets), the GPU should be replaced; None where that never follows.
    """

    code: int
    mnemonic: str
    description: str
    nvidia_immediate: str
    nvidia_investigatory: str
    category: str
    rule: str
    replace_after: int | None
    ours: str
    advice: str
    known: bool = True


class Sxid(msgspec.Struct, frozen=True):
    """One SXid. `severity`: fatal, always-fatal, nonfatal, benign or unknown."""

    code: int
    name: str
    severity: str
    advice: str


_xids: dict[int, Xid] = {}
_sxids: dict[int, Sxid] = {}


def xids() -> dict[int, Xid]:
    """The whole Xid catalogue by code."""
    if not _xids:
        for row in _rows("xid.tsv"):
            code, mnemonic, description, immediate, then, category, rule, after, ours, advice = row
            _xids[int(code)] = Xid(
                int(code), mnemonic, description, immediate, then, category, rule,
                int(after) if after else None, ours, advice,
            )  # fmt: skip
    return _xids


def sxids() -> dict[int, Sxid]:
    """All known SXids by code."""
    if not _sxids:
        for row in _rows("sxid.tsv"):
            _sxids[int(row[0])] = Sxid(int(row[0]), row[1], row[2], row[3])
    return _sxids


def xid(code: int) -> Xid:
    """The entry of a code; one that says "unknown, review" where the catalogue has none."""
    return xids().get(code) or Xid(
        code=code,
        mnemonic="UNKNOWN",
        description="not in the catalogue",
        nvidia_immediate="",
        nvidia_investigatory="",
        category="unknown",
        rule="review",
        replace_after=None,
        ours="unknown code: review",
        advice="",
        known=False,
    )


def sxid(code: int) -> Sxid:
    """The entry of an SXid; severity "unknown" where the guide has none."""
    return sxids().get(code) or Sxid(code, "not in the guide", "unknown", "")


def _rows(name: str) -> list[list[str]]:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file][1:]
