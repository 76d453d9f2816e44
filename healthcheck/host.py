"""The only door to a machine.

Probes read through a Host and through nothing else, so a folder can stand for a machine
(`--root`, as with node_exporter's path options) and a test can stand for a folder.
"""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

MAX_TEXT = 65_536
NVML = "libnvidia-ml.so.1"
NVML_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
ANSWERS = "host.json"
"""In the root of a recorded machine: answers to what is not a file (commands, system calls)."""


class Completed(NamedTuple):
    """How a command ended. `code` is None where it was killed for its time-out."""

    code: int | None
    stdout: str
    stderr: str


class Space(NamedTuple):
    """Answer of statvfs: bytes, inodes, and whether the file system is mounted read-only."""

    size_bytes: int
    free_bytes: int
    inodes: int
    inodes_free: int
    read_only: bool


class ClockState(NamedTuple):
    """Answer of adjtimex, in seconds."""

    synchronised: bool
    estimated_error_s: float
    maximum_error_s: float
    offset_s: float


class Host(Protocol):
    """What a probe may ask of a machine. Paths are absolute; OSError means what it always does."""

    def read_bytes(self, path: str, limit: int = MAX_TEXT) -> bytes:
        """At most `limit` bytes of a file."""

    def read_text(self, path: str, limit: int = MAX_TEXT) -> str:
        """A small text file, stripped; bytes that are not UTF-8 are replaced."""

    def list_dir(self, path: str) -> list[str]:
        """Sorted names in a directory."""

    def exists(self, path: str) -> bool:
        """Whether the path is there."""

    def real_path(self, path: str) -> str:
        """The path with all links followed, still as the machine itself would name it."""

    def space(self, path: str) -> Space:
        """Size and free space of the file system that holds the path. May never return."""

    def clock(self) -> ClockState:
        """The kernel's own idea of its clock."""

    def node_name(self) -> str:
        """Short host name."""

    def kernel_records(self, since: int) -> Iterator[bytes]:
        """Records of /dev/kmsg from sequence number `since` on, oldest first."""

    def run(self, argv: list[str], timeout: float) -> Completed:
        """Run a command with a fixed environment. FileNotFoundError where it does not exist."""

    def nvml(self) -> Any:
        """The pynvml module, its library loadable. OSError where there is no NVML here."""


class LocalHost:
    """This machine."""

    def read_bytes(self, path: str, limit: int = MAX_TEXT) -> bytes:
        """At most `limit` bytes of a file."""
        # O_NONBLOCK: a FIFO in place of a file must not hold us.
        fd = os.open(self._path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            chunks = b""
            while len(chunks) < limit:
                chunk = os.read(fd, limit - len(chunks))
                if not chunk:
                    break
                chunks += chunk
            return chunks
        finally:
            os.close(fd)

    def read_text(self, path: str, limit: int = MAX_TEXT) -> str:
        """A small text file, stripped; bytes that are not UTF-8 are replaced."""
        return self.read_bytes(path, limit).decode("utf-8", "replace").strip()

    def list_dir(self, path: str) -> list[str]:
        """Sorted names in a directory."""
        return sorted(os.listdir(self._path(path)))

    def exists(self, path: str) -> bool:
        """Whether the path is there."""
        return os.path.exists(self._path(path))

    def real_path(self, path: str) -> str:
        """The path with all links followed."""
        return os.path.realpath(path)

    def space(self, path: str) -> Space:
        """Size and free space; blocks for as long as the file system does."""
        answer = os.statvfs(path)
        unit = answer.f_frsize
        return Space(
            answer.f_blocks * unit,
            answer.f_bavail * unit,
            answer.f_files,
            answer.f_favail,
            bool(answer.f_flag & os.ST_RDONLY),
        )

    def clock(self) -> ClockState:
        """The kernel's own idea of its clock (adjtimex, read-only)."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        # struct timex: modes, then longs offset, freq, maxerror, esterror, int status; the
        # kernel writes 208 bytes on 64-bit Linux. Errors are in microseconds (man 2 adjtimex).
        words = (ctypes.c_long * 40)()
        if libc.adjtimex(words) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        status = words[5] & 0xFFFFFFFF
        unsynchronised, nanoseconds = 0x40, 0x2000
        unit = 1e9 if status & nanoseconds else 1e6
        return ClockState(
            not status & unsynchronised, words[4] / 1e6, words[3] / 1e6, words[1] / unit
        )

    def node_name(self) -> str:
        """Short host name."""
        return os.uname().nodename.partition(".")[0]

    def kernel_records(self, since: int) -> Iterator[bytes]:
        """Records of /dev/kmsg from sequence number `since` on, oldest first."""
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while True:
                try:
                    record = os.read(fd, 8192)
                except BlockingIOError:
                    return
                except BrokenPipeError:
                    continue  # records were overwritten while we read; the next read goes on
                if not record:
                    return
                yield record
        finally:
            os.close(fd)

    def run(self, argv: list[str], timeout: float) -> Completed:
        """Run a command in a session of its own, with a fixed environment and bounded output."""
        from healthcheck.command import run_command

        return run_command(argv, timeout)

    def nvml(self) -> Any:
        """The pynvml module, once the driver's library is known to load."""
        import ctypes

        ctypes.CDLL(NVML)
        import pynvml  # noqa: TID251

        return pynvml

    def _path(self, path: str) -> str:
        return path


class RecordedHost(LocalHost):
    """A folder that stands for a machine.

    Its files lie where the machine has them, its NVML is a library in one of NVML_FOLDERS, and
    ANSWERS holds what is not a file: `{"node": …, "commands": {"ipmitool sdr": {"code": 0,
    "stdout": …}}, "space": {"/": {…} or "hang" or "stale"}, "clock": {…}}`.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def real_path(self, path: str) -> str:
        """The path with links followed, as the recorded machine would name it."""
        real = os.path.realpath(self._path(path))
        base = os.path.realpath(self.root)
        return real[len(base) :] or "/" if real.startswith(base) else path

    def space(self, path: str) -> Space:
        """The recorded answer for the longest recorded prefix of the path."""
        answers: dict[str, Any] = self._answers().get("space", {})
        prefixes = [p for p in answers if path == p or path.startswith(p.rstrip("/") + "/")]
        if not prefixes:
            raise FileNotFoundError(2, "no such file or directory", path)
        answer = answers[max(prefixes, key=len)]
        if answer == "hang":
            _hang()
        if isinstance(answer, str):
            import errno

            code = {"stale": errno.ESTALE, "io": errno.EIO}.get(answer, errno.ENOENT)
            raise OSError(code, os.strerror(code), path)
        return Space(
            answer["size_bytes"],
            answer["free_bytes"],
            answer.get("inodes", 1_000_000),
            answer.get("inodes_free", 900_000),
            answer.get("read_only", False),
        )

    def clock(self) -> ClockState:
        """The recorded clock state."""
        answer = self._answers().get("clock")
        if answer is None:
            raise FileNotFoundError(2, "no clock state recorded")
        return ClockState(
            answer["synchronised"],
            answer.get("estimated_error_s", 0.0),
            answer.get("maximum_error_s", 0.0),
            answer.get("offset_s", 0.0),
        )

    def node_name(self) -> str:
        """The recorded name."""
        return str(self._answers().get("node", os.path.basename(self.root)))

    def kernel_records(self, since: int) -> Iterator[bytes]:
        """Lines of the recorded /dev/kmsg, in the device's own format."""
        yield from self.read_bytes("/dev/kmsg", 64 << 20).splitlines()

    def run(self, argv: list[str], timeout: float) -> Completed:
        """The recorded answer to this command line."""
        answer = self._answers().get("commands", {}).get(" ".join(argv))
        if answer is None:
            raise FileNotFoundError(2, "command not recorded", argv[0])
        return Completed(answer["code"], answer.get("stdout", ""), answer.get("stderr", ""))

    def nvml(self) -> Any:
        """The pynvml module on the recorded machine's own library, never on this machine's.

        glibc answers a later dlopen of the bare name with the library already loaded under that
        SONAME, so loading ours by path first decides which one pynvml gets.
        """
        import ctypes

        for folder in NVML_FOLDERS:
            path = f"{self.root}/{folder}/{NVML}"
            if os.path.exists(path):
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
                import pynvml  # noqa: TID251

                return pynvml
        raise FileNotFoundError(2, f"no {NVML} in the recorded machine", self.root)

    def _path(self, path: str) -> str:
        return self.root + path

    def _answers(self) -> dict[str, Any]:
        from healthcheck.strict_json import decode_json

        try:
            answers = decode_json(self.read_bytes("/" + ANSWERS, 1 << 20))
        except (OSError, ValueError):
            return {}
        return answers if isinstance(answers, dict) else {}


def host_at(root: str | None) -> Host:
    """This machine, or the folder that stands for one."""
    if root in (None, "", "/"):
        return LocalHost()
    return RecordedHost(str(root))


def _hang() -> None:
    import time

    while True:
        time.sleep(3600)


def recorded(host: Host) -> bool:
    """Whether the host is a folder rather than this machine."""
    return isinstance(host, RecordedHost)


def root_of(host: Host) -> str:
    """The folder that stands for the machine, or "" for this machine itself."""
    return host.root if isinstance(host, RecordedHost) else ""
