"""Carrying out a plan, and taking everything back."""

import time

from slurm_integration.install.disk import Disk
from slurm_integration.install.manifest import (
    concluded,
    intended,
    manifest_path,
    write_manifest,
)
from slurm_integration.install.model import (
    WRITES,
    Do,
    InstallError,
    Item,
    Manifest,
    Plan,
    Step,
)
from slurm_integration.install.plan import leave


def refuse_untrusted(disk: Disk, plan: Plan) -> None:
    """Raise InstallError before anything is done, where a path is not root's alone."""
    for step in plan.steps:
        if step.do in (*WRITES, Do.MODE, Do.REMOVE):
            why = disk.untrusted(step.path)
            if why:
                raise InstallError(
                    f"{disk.at(step.path)}: expected a folder that only root can change, found: "
                    f"{why}; nothing was done. chown root:root and chmod go-w mend that"
                )


def apply(disk: Disk, home: str, manifest: Manifest, plan: Plan) -> list[str]:
    """Do it; where a file of the site's was replaced, say where its copy lies.

    Killed at any moment, the next run goes on from there: the manifest names every path before it
    is made. Raises InstallError.
    """
    refuse_untrusted(disk, plan)
    if plan.idle:
        disk.drop_draft(manifest_path(home))  # of a run that was killed at its very end
        return []
    first = [*disk.missing_folders(f"{home}/x")]
    plan = Plan(plan.steps, tuple(dict.fromkeys((*first, *plan.folders))))
    for folder in first:
        disk.make_folder(folder)
    told = []
    with disk.alone(home):
        intent = intended(manifest, plan)
        write_manifest(disk, home, intent)
        for folder in plan.folders:
            disk.make_folder(folder)
        for step in plan.steps:
            told += _do(disk, home, step)
        write_manifest(disk, home, concluded(intent, plan))
    return told


def _do(disk: Disk, home: str, step: Step) -> list[str]:
    told = []
    if step.do is Do.REPLACE:
        told.append(f"{step.path}: yours is kept as {_save(disk, home, step)}")
    if step.do in WRITES and step.item is not None:
        disk.put(step.item)
    elif step.do is Do.MODE and step.item is not None:
        disk.set_mode(step.path, step.item.mode)
    elif step.do is Do.REMOVE:
        disk.remove(step.path)
    return told


def _save(disk: Disk, home: str, step: Step) -> str:
    """Keep what is replaced, in a folder of its own: Slurm's globs would run a copy beside it."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    place = f"{home}/saved/{step.path.strip('/').replace('/', '-')}.{stamp}"
    disk.make_folder(f"{home}/saved")
    text = step.found.text.decode("utf-8", "surrogateescape")
    if step.found.kind == "link":
        disk.put(Item(place, text, "link"))
    else:
        disk.put_bytes(place, step.found.text, 0o600)
    return disk.at(place)


def plan_removal(disk: Disk, manifest: Manifest) -> Plan:
    """What uninstall would do, the last installed first."""
    return Plan(tuple(leave(one, disk.look(one.path)) for one in reversed(manifest.entries)))


def remove(disk: Disk, home: str, manifest: Manifest, plan: Plan) -> list[str]:
    """Take it back; which folders of ours stay because something else is in them.

    The manifest goes last, so that an uninstall that was killed can be run again.
    """
    refuse_untrusted(disk, plan)
    ordered = sorted(manifest.folders, key=lambda path: path.count("/"), reverse=True)
    above = [path for path in ordered if f"{home}/".startswith(f"{path}/")]
    with disk.alone(home):
        for step in plan.of(Do.REMOVE):
            disk.remove(step.path)
        left = [path for path in ordered if path not in above and not disk.remove_folder(path)]
        disk.remove(manifest_path(home))
    # The home is ours by its name, even if an install was killed before it could say so.
    return left + [path for path in dict.fromkeys((home, *above)) if not disk.remove_folder(path)]
