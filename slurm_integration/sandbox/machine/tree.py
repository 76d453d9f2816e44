"""Writing a folder of many small files: fast the first time, only what changed afterwards."""

import os
import time
from collections.abc import Mapping
from typing import NamedTuple


class Link(NamedTuple):
    """A symbolic link and where it points."""

    target: str


Tree = Mapping[str, bytes | Link]
"""Path below the root → contents."""


def write_new(root: str, tree: Tree) -> None:
    """Write everything into a folder that nobody reads yet."""
    made: set[str] = set()
    for path, content in tree.items():
        folder = path.rpartition("/")[0]
        if folder not in made:
            os.makedirs(f"{root}/{folder}", exist_ok=True)
            made.add(folder)
        _put(f"{root}/{path}", content)


def write_changes(root: str, before: Tree, after: Tree) -> None:
    """Turn one tree into the other; a reader sees each file old or new, never half.

    What is not in `before` (state files, say) is left alone.
    """
    for path, content in after.items():
        if before.get(path) != content or not os.path.lexists(f"{root}/{path}"):
            os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
            _replace(f"{root}/{path}", content)
    for path in before:
        if path not in after:
            _remove(root, path)


def _put(path: str, content: bytes | Link) -> None:
    if isinstance(content, Link):
        os.symlink(content.target, path)
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def _replace(path: str, content: bytes | Link) -> None:
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{os.getpid()}"
    if os.path.lexists(draft):
        os.unlink(draft)
    _put(draft, content)
    if not isinstance(content, Link):
        stamp = _newer_than(path)
        os.utime(draft, ns=(stamp, stamp))
    os.replace(draft, path)


def _newer_than(path: str) -> int:
    # The simulated NVML notices a change by size, inode and time; the kernel's stamp is coarse
    # and inodes are reused, so a quick second change could look like none.
    try:
        before = os.stat(path).st_mtime_ns
    except OSError:
        before = 0
    return max(time.time_ns(), before + 1)


def _remove(root: str, path: str) -> None:
    try:
        os.unlink(f"{root}/{path}")
        folder = path.rpartition("/")[0]
        while folder:
            os.rmdir(f"{root}/{folder}")
            folder = folder.rpartition("/")[0]
    except OSError:
        return  # gone already, or the folder still holds something
