"""Profiles: what a type of node must have, each figure with its source.

A profile is a TOML file: `name`, `title`, `[match]` (which hardware it is for), `mounts` and
`services`, and one table a check whose keys are the fields of that check's limits:

    [gpu-count]
    gpus = { value = 8, source = "NVIDIA DGX H100 datasheet" }
"""

import tomllib
from typing import Any

import msgspec

from healthcheck.model import PciDevice


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A limit and where it comes from."""

    value: Any
    source: str


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which hardware a profile is for: PCI device ids of its GPUs (`0x2330`).

    `gpus` decides between profiles that share an id; a node with fewer still matches, since a
    missing GPU must be found and not explained away.
    """

    pci_device_ids: tuple[str, ...] = ()
    gpus: int | None = None


class Profile(msgspec.Struct, frozen=True):
    """A node type. `checks` maps a check's name to its figures by field name."""

    name: str
    title: str
    match: Match = Match()
    mounts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    checks: dict[str, dict[str, Figure]] = {}
    path: str = ""


def choose_profile(
    wanted: str, folders: list[str], pinned: str | None, seen: tuple[PciDevice, ...] | None
) -> tuple[Profile, list[str], bool]:
    """(profile, notes, refused) for a node. Temporary: helper-3 replaces the inside."""
    ids = {d.device for d in seen or () if d.kind == "gpu" and not d.virtual}
    names = (
        [wanted]
        if wanted != "auto"
        else ["h100-sxm"]
        if "0x2330" in ids
        else [pinned or "cpu-only"]
    )
    return load_profile(names[0], folders), [], False


def load_profile(name: str, folders: list[str]) -> Profile:
    """Read NAME.toml from the first folder that has it."""
    for folder in folders:
        path = f"{folder}/{name}.toml"
        try:
            with open(path, "rb") as file:
                data = tomllib.load(file)
        except FileNotFoundError:
            continue
        own = {
            k: data.pop(k) for k in ("name", "title", "match", "mounts", "services") if k in data
        }
        return msgspec.convert({**own, "checks": data, "path": path}, Profile)
    raise FileNotFoundError(name)
