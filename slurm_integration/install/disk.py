"""The only place that touches the disk: whole files, correct modes, and no path that others own."""

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from slurm_integration.doctor.reading.files import loose
from slurm_integration.install.model import Found, InstallError, Item

MAX_BYTES = 4 << 20


class Disk:
    """This machine, or a folder that stands for one (`root`). Paths are the machine's own."""

    def __init__(self, root: str = "") -> None:
        self.root = os.path.realpath(root) if root not in ("", "/") else ""

    def at(self, path: str) -> str:
        """Where a path of the machine lies."""
        return self.root + path

    def look(self, path: str) -> Found:
        """What lies there. Raises InstallError where that can't be seen."""
        place = self.at(path)
        try:
            state = os.lstat(place)
            mode = stat.S_IMODE(state.st_mode)
            if stat.S_ISLNK(state.st_mode):
                return Found("link", os.readlink(place).encode(), mode)
            if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_BYTES:
                return Found("other", mode=mode)
            fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, "rb") as file:
                return Found("file", file.read(MAX_BYTES), mode)
        except (FileNotFoundError, NotADirectoryError):
            return Found("missing")
        except OSError as error:
            raise InstallError(f"{place}: {error.strerror}; see that root can read it") from error

    def untrusted(self, path: str) -> str:
        """Why nothing is written there, or "": others could lead us elsewhere.

        Links of root's are followed (a shared /etc/slurm is one); below a `root` none may leave it.
        """
        parent = os.path.dirname(self.at(path))
        real = os.path.realpath(parent)
        if self.root and not f"{real}/".startswith(f"{self.root}/"):
            return f"{parent} leads to {real}, outside of {self.root}"
        mine = [
            one for one in loose(parent, owner=os.geteuid())
            if not self.root or one.startswith(f"{self.root}/")
        ]  # fmt: skip
        return "; ".join(mine)

    def missing_folders(self, path: str) -> list[str]:
        """The folders above a path that have to be made, the topmost first."""
        found: list[str] = []
        folder = os.path.dirname(path)
        while folder not in ("", "/") and not os.path.lexists(self.at(folder)):
            found.insert(0, folder)
            folder = os.path.dirname(folder)
        return found

    def make_folder(self, path: str) -> None:
        """Make one folder for everybody to read. One that is there is fine."""
        try:
            os.mkdir(self.at(path), 0o755)
            os.chmod(self.at(path), 0o755)  # noqa: S103 - whatever the umask; Slurm reads it
        except FileExistsError:
            pass
        except OSError as error:
            raise InstallError(f"{self.at(path)}: {error.strerror}; {_HELP}") from error

    def put(self, item: Item) -> None:
        """Put a file or a link there, whole or not at all, over whatever lies there."""
        if item.kind == "file":
            self.put_bytes(item.path, item.text.encode(), item.mode)
            return
        place, draft = self.at(item.path), draft_of(self.at(item.path))
        try:
            _unlink(draft)
            os.symlink(item.text, draft)
            os.replace(draft, place)
        except OSError as error:
            _try_unlink(draft)
            raise InstallError(f"{place}: {error.strerror}; {_HELP}") from error

    def put_bytes(self, path: str, data: bytes, mode: int) -> None:
        """Put a file there, whole or not at all."""
        place, draft = self.at(path), draft_of(self.at(path))
        try:
            _unlink(draft)
            _write(draft, data, mode)
            os.replace(draft, place)
            _sync_folder(os.path.dirname(place))
        except OSError as error:
            _try_unlink(draft)
            raise InstallError(f"{place}: {error.strerror}; {_HELP}") from error

    def set_mode(self, path: str, mode: int) -> None:
        """Give a file its mode again."""
        try:
            os.chmod(self.at(path), mode, follow_symlinks=True)
        except OSError as error:
            raise InstallError(f"{self.at(path)}: {error.strerror}; {_HELP}") from error

    def drop_draft(self, path: str) -> None:
        """Remove what an install that was killed began to write. Best effort."""
        _try_unlink(draft_of(self.at(path)))

    def remove(self, path: str) -> None:
        """Remove a file or link, and the draft of an install that was killed."""
        try:
            _unlink(draft_of(self.at(path)))
            _unlink(self.at(path))
        except OSError as error:
            raise InstallError(f"{self.at(path)}: {error.strerror}; {_HELP}") from error

    def remove_folder(self, path: str) -> bool:
        """Remove a folder if it is empty; whether it is gone."""
        try:
            os.rmdir(self.at(path))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    @contextmanager
    def alone(self, folder: str) -> Iterator[None]:
        """Be the only install on this folder, which has to be there."""
        fd = os.open(self.at(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InstallError(
                    f"{self.at(folder)}: another install or uninstall runs; wait for it"
                ) from error
            yield
        finally:
            os.close(fd)


_HELP = "nothing after this was done; mend that and run it again"


def sha256(data: bytes) -> str:
    """The hex digest that the manifest keeps."""
    return hashlib.sha256(data).hexdigest()


def draft_of(place: str) -> str:
    """Hidden: Slurm's globs and systemd do not see it, and the next install knows its name."""
    folder, _, name = place.rpartition("/")
    return f"{folder}/.{name}.flightcheck-draft"


def _write(path: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError:
        pass  # some network file systems refuse; the rename itself is whole all the same
    finally:
        os.close(fd)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _try_unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
