"""Root's own folders: made so that nobody else can write there, and refused where somebody can.

A state folder that a user owns is a way to root: a link or a second name in place of a file of
ours would be written through. On the path of every prolog: one stat, nothing imported.
"""

import os
import stat


def own_folder(path: str, mode: int = 0o700) -> None:
    """Make the folder if it is not there, whatever the umask; else as check_folder."""
    try:
        check_folder(path, mode)
    except FileNotFoundError:
        _make(path, mode)
        check_folder(path, mode)


def check_folder(path: str, mode: int = 0o700) -> None:
    """Raises OSError: FileNotFoundError, NotADirectoryError and, as root, PermissionError where
    others can change it. The text of the last one says what to run.
    """
    state = os.stat(path)
    if not stat.S_ISDIR(state.st_mode):
        raise NotADirectoryError(20, "expected a folder; move it away", path)
    if os.geteuid() == 0 and others_can_change(state):
        raise PermissionError(
            1,
            f"expected a folder that only root can change, found owner {state.st_uid}, mode "
            f"{stat.S_IMODE(state.st_mode):04o}; look who made it, then: "
            f"chown root:root {path}; chmod {mode:o} {path}",
            path,
        )


def others_can_change(state: os.stat_result) -> bool:
    """Whether somebody besides root may put files there."""
    by_group = state.st_mode & 0o020 and state.st_gid != 0
    return bool(state.st_uid != 0 or state.st_mode & 0o002 or by_group)


def _make(path: str, mode: int) -> None:
    """With its parents, which all may read and root alone may change."""
    parent = os.path.dirname(path.rstrip("/"))
    if parent and not os.path.isdir(parent):
        _make(parent, 0o755)
    try:
        os.mkdir(path, 0o700)
        os.chmod(path, mode)
    except FileExistsError:
        pass
