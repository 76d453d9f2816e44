"""Which profile a node is judged by: the one that is named, or the one its hardware asks for."""

import os
from typing import NamedTuple

from healthcheck.model import PciDevice
from healthcheck.profile_file import Figure, Match, Profile, load_profile, profile_files
from healthcheck.strict_toml import Refused, read_bounded

__all__ = [
    "BUILTIN_DIR", "CPU_ONLY", "UNKNOWN_GPU", "Choice", "Figure", "Match", "Profile",
    "choose_profile", "load_profile", "profile_files",
]  # fmt: skip

BUILTIN_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiles")
CPU_ONLY = "cpu-only"
UNKNOWN_GPU = "unknown-gpu"
"""The name of the empty profile of a node whose GPUs no profile describes."""


class Choice(NamedTuple):
    """The profile to judge by, what to tell, and whether the verdict must stay unknown."""

    profile: Profile
    notes: list[str]
    refused: bool


def choose_profile(
    wanted: str, folders: list[str], pinned: str | None, seen: tuple[PciDevice, ...] | None
) -> Choice:
    """The profile for a node: by name, or by the GPUs on its PCI bus where `wanted` is auto.

    `folders`: the site's first, then the built-in ones. `pinned`: the profile that the node had
    before, which keeps a node that lost GPUs from turning into a smaller one. `seen`: the PCI
    devices, None where they could not be read. Never raises for anything in the files.
    """
    gpus = [d.device for d in seen or () if d.kind == "gpu" and not d.virtual]
    if wanted != "auto":
        chosen = _load_or_stand_in(wanted, folders)
        return chosen._replace(notes=[*chosen.notes, *_wrong_hardware(chosen.profile, gpus)])
    if gpus:
        return _by_hardware(gpus, folders, pinned)
    if pinned == UNKNOWN_GPU:
        told = "no GPU is on the PCI bus now, but earlier looks saw some that no profile describes"
        return Choice(Profile(UNKNOWN_GPU, "GPUs without a profile"), [told], True)
    if pinned is not None and pinned != CPU_ONLY:
        chosen = _load_or_stand_in(pinned, folders)
        told = f"no GPU is on the PCI bus; judged as {pinned}, which this node was before"
        return chosen if seen is None else chosen._replace(notes=[told, *chosen.notes])
    chosen = _load_or_stand_in(CPU_ONLY, folders)
    if seen is None and pinned is None:
        told = "the PCI devices could not be read, so the node's type is not known"
        return Choice(chosen.profile, [told, *chosen.notes], True)
    return chosen


def _load_or_stand_in(name: str, folders: list[str]) -> Choice:
    """The profile; where its file is refused, the next folder's of that name or an empty one."""
    try:
        return Choice(load_profile(name, folders), [], False)
    except Refused as refusal:
        notes = list(refusal.notes)
    for rest in (folders[i:] for i in range(1, len(folders))):
        try:
            profile = load_profile(name, rest)
        except Refused:
            continue
        return Choice(profile, [*notes, f"profile {name}: {profile.path} stands in"], True)
    return Choice(Profile(name, "a refused profile"), notes, True)


def _wrong_hardware(profile: Profile, gpus: list[str]) -> list[str]:
    ids = profile.match.pci_device_ids
    if not gpus or any(gpu in ids for gpu in gpus) or (not ids and profile.name != CPU_ONLY):
        return []
    expected = f"for GPUs {', '.join(ids)}" if ids else "for nodes without GPUs"
    return [f"profile {profile.name} is {expected}; this node has {_listed(gpus)}"]


def _listed(gpus: list[str]) -> str:
    """`8 × 0x2330`."""
    return ", ".join(f"{gpus.count(gpu)} × {gpu}" for gpu in sorted(set(gpus)))


def _by_hardware(gpus: list[str], folders: list[str], pinned: str | None) -> Choice:
    """The profile for these GPUs' device ids."""
    found = [_load_or_stand_in(name, folders) for name in _candidates(set(gpus), folders)]
    fitting = [c for c in found if set(c.profile.match.pci_device_ids) & set(gpus)]
    broken = [c for c in found if c.refused]
    notes = [note for choice in broken for note in choice.notes]
    if not fitting:
        told = (
            f"no profile describes this node's GPUs ({_listed(gpus)}); on a node known to be good, "
            "run: flightcheck profile learn --name NAME --output FILE"
        )
        return Choice(Profile(UNKNOWN_GPU, "GPUs without a profile"), [*notes, told], True)
    before = next((c.profile.match.gpus or 0 for c in fitting if c.profile.name == pinned), 0)
    best = min(fitting, key=lambda choice: _distance(choice.profile, gpus, before)).profile
    strangers = [gpu for gpu in gpus if gpu not in best.match.pci_device_ids]
    if strangers:
        notes.append(f"profile {best.name} does not describe {_listed(strangers)} of this node")
    if best.match.gpus is not None and len(gpus) > best.match.gpus:
        notes.append(
            f"profile {best.name} is for {best.match.gpus} GPUs and this node has {len(gpus)}, so "
            "one of them could be lost unseen; give this type a profile with `flightcheck profile "
            "learn`"
        )
    if pinned not in (None, CPU_ONLY, UNKNOWN_GPU, best.name):
        notes.append(f"this node was {pinned} before; its GPUs ({_listed(gpus)}) say {best.name}")
    return Choice(best, notes, bool(broken))


def _distance(profile: Profile, gpus: list[str], before: int) -> tuple[int, int, int]:
    """How badly a profile fits, best first.

    The one that explains most GPUs, then the smallest that is large enough: for what is seen and
    for what the node had before.
    """
    here = sum(gpu in profile.match.pci_device_ids for gpu in gpus)
    need, has = max(here, before), profile.match.gpus
    if has is None:
        return -here, 1, 0
    return (-here, 0, has - need) if has >= need else (-here, 2, need - has)


def _candidates(ids: set[str], folders: list[str]) -> list[str]:
    """Names of profiles that may match, by their bytes: parsing each would cost milliseconds."""
    names = []
    for name, path in profile_files(folders).items():
        try:
            data = read_bounded(path)
        except (Refused, FileNotFoundError):
            names.append(name)  # cannot be ruled out; loading it tells why
            continue
        inherits = b"extends" in data and b"pci_device_ids" not in data
        if inherits or any(gpu.encode() in data for gpu in ids):
            names.append(name)
    return names
