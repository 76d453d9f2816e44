"""What has to be done: the items wanted against the disk and the manifest. Pure."""

from collections.abc import Callable, Iterable

from slurm_integration.install.disk import sha256
from slurm_integration.install.model import Do, Entry, Found, Item, Manifest, Plan, Step

BY_HAND = "changed by hand; --force replaces it, and keeps yours"
FOREIGN = "was here before; --force replaces it, and keeps yours"
NO_FILE = "is neither a file nor a link; move it away"


def plan(
    items: Iterable[Item],
    manifest: Manifest,
    look: Callable[[str], Found],
    missing_folders: Callable[[str], list[str]],
    *,
    force: bool = False,
) -> Plan:
    """One step for each item, and for each file of ours that is wanted no more."""
    wanted = list(items)
    steps = [_step(item, manifest.entry(item.path), look(item.path), force) for item in wanted]
    paths = {item.path for item in wanted}
    for entry in manifest.entries:
        if entry.path not in paths:
            steps.append(leave(entry, look(entry.path)))
    folders: dict[str, None] = {}
    for step in steps:
        if step.do is Do.NEW:
            folders |= dict.fromkeys(missing_folders(step.path))
    return Plan(tuple(steps), tuple(folders))


def leave(entry: Entry, found: Found) -> Step:
    """The step that takes back what we put there: removed if it is still ours, else kept."""
    if found.kind == "missing":
        return Step(Do.GONE, entry.path, "not there any more")
    if _is_ours(entry, found):
        return Step(Do.REMOVE, entry.path, found=found)
    return Step(Do.FORGET, entry.path, "changed since it was installed: kept", found=found)


def _step(item: Item, entry: Entry | None, found: Found, force: bool) -> Step:
    if item.kind == "link" and not item.text and entry is not None:
        return _old_link(item, entry, found)
    if found.kind == "missing":
        return Step(Do.NEW, item.path, item=item, found=found)
    if found.kind == item.kind and found.text == item.text.encode():
        if item.kind == "file" and entry is not None and found.mode != item.mode and not item.seed:
            why = f"mode {found.mode:04o}, expected {item.mode:04o}"
            return Step(Do.MODE, item.path, why, item, found)
        return Step(Do.SAME, item.path, item=item, found=found)
    if entry is not None and _is_ours(entry, found):
        return Step(Do.UPDATE, item.path, item=item, found=found)
    if item.seed:
        return Step(Do.KEPT, item.path, "the site's own", item, found)
    if found.kind == "other":
        return Step(Do.KEPT, item.path, NO_FILE, item, found)
    if force:
        return Step(Do.REPLACE, item.path, item=item, found=found)
    return Step(Do.KEPT, item.path, BY_HAND if entry else FOREIGN, item, found)


def _old_link(item: Item, entry: Entry, found: Found) -> Step:
    """A link of an earlier install: slurm.conf may lead to it, so only uninstall removes it."""
    if found.kind == "missing" or not _is_ours(entry, found):
        return Step(Do.FORGET, item.path, "a link of ours that was changed or removed")
    return Step(Do.SAME, item.path, item=item, found=found)


def _is_ours(entry: Entry, found: Found) -> bool:
    return found.kind == entry.kind and sha256(found.text) in entry.sha256
