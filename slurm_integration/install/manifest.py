"""The manifest: which paths are ours, and with which contents."""

import msgspec

from healthcheck.strict_json import decode_json
from slurm_integration.install.disk import Disk, sha256
from slurm_integration.install.model import (
    WRITES,
    Do,
    Entry,
    InstallError,
    Item,
    Manifest,
    Plan,
)

NAME = "install.json"


def manifest_path(home: str) -> str:
    """Beside the wrappers: an image that carries /etc carries it too."""
    return f"{home}/{NAME}"


def read_manifest(disk: Disk, home: str) -> Manifest:
    """The manifest, an empty one where there is none. Raises InstallError for a damaged one."""
    path = manifest_path(home)
    found = disk.look(path)
    if found.kind == "missing":
        return Manifest()
    # Whoever can write this list could have any file of root's removed.
    why = disk.untrusted(f"{path}/")
    if why:
        raise InstallError(f"{disk.at(path)}: expected a file that only root can change: {why}")
    try:
        manifest = decode_json(found.text, Manifest)
    except msgspec.MsgspecError as error:
        raise InstallError(
            f"{disk.at(path)}: expected a list of what flightcheck installed, found: {error}. "
            "Move it away; files of ours that are there then count as the site's own"
        ) from error
    if found.kind != "file" or any(not _plain(path) for path in _paths(manifest)):
        raise InstallError(f"{disk.at(path)}: expected absolute paths only; move it away")
    return manifest


def write_manifest(disk: Disk, home: str, manifest: Manifest) -> None:
    """Keep it, whole or not at all."""
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1).decode() + "\n"
    disk.put(Item(manifest_path(home), text))


def intended(manifest: Manifest, plan: Plan) -> Manifest:
    """Written before the first file: whatever an install that is killed has done is in it."""
    entries = {entry.path: entry for entry in manifest.entries}
    for step in plan.of(*WRITES):
        assert step.item is not None
        known = entries.get(step.path)
        shas = (*(known.sha256 if known else ()), sha256(step.item.text.encode()))
        entries[step.path] = Entry(step.path, step.item.kind, tuple(dict.fromkeys(shas)))
    folders = tuple(dict.fromkeys((*manifest.folders, *plan.folders)))
    return Manifest(entries=tuple(entries.values()), folders=folders)


def concluded(intent: Manifest, plan: Plan) -> Manifest:
    """After the last file: one content for each path, and nothing that is not there."""
    lost = {step.path for step in plan.of(Do.REMOVE, Do.GONE, Do.FORGET)}
    now = {
        step.path: sha256(step.item.text.encode())
        for step in plan.of(*WRITES)
        if step.item is not None
    }
    entries = tuple(
        Entry(one.path, one.kind, (now[one.path],)) if one.path in now else one
        for one in intent.entries
        if one.path not in lost
    )
    return Manifest(entries=entries, folders=intent.folders)


def _paths(manifest: Manifest) -> list[str]:
    return [*(entry.path for entry in manifest.entries), *manifest.folders]


def _plain(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and ".." not in path.split("/")
