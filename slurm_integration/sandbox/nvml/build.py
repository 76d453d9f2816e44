"""Compiles the library once and installs it for a simulated node."""

import hashlib
import os
import shutil
import subprocess  # noqa: TID251  (this module is the sandbox's door to the C compiler)
import tempfile
from pathlib import Path

from slurm_integration.sandbox.nvml.model import SimulatedNvml
from slurm_integration.sandbox.nvml.state import STATE_NAME, write_state

LIBRARY_NAME = "libnvidia-ml.so.1"
"""The file's name and its SONAME: what pynvml asks the loader for."""

_SOURCES = Path(__file__).parent
_FLAGS = (
    "-std=gnu11 -O2 -g -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden "
    f"-Wl,-soname,{LIBRARY_NAME} -Wl,-z,defs"
).split()
_LIBRARIES = ("-lpthread", "-ldl")
_COMPILE_SECONDS = 120


class BuildError(Exception):
    """The library could not be compiled; the message says what to do."""


def sources() -> list[Path]:
    """The C files, headers and the linker's list of exports, in a fixed order."""
    return sorted(p for p in _SOURCES.iterdir() if p.suffix in {".c", ".h", ".map"})


def build_library(cache_dir: Path) -> Path:
    """The compiled library, in a folder named after its sources' hash.

    Raises:
        BuildError: no C compiler, or it refused; nothing is left in the cache.
    """
    compiler = find_compiler()
    digest = hashlib.sha256(f"{compiler} {_FLAGS}".encode())
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    target = cache_dir / f"nvml-{digest.hexdigest()[:16]}" / LIBRARY_NAME
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".nvml-", dir=cache_dir) as folder:
        built = Path(folder) / LIBRARY_NAME
        _compile(compiler, built)
        built.replace(target)
    return target


def install_library(cache_dir: Path, folder: Path, nvml: SimulatedNvml) -> Path:
    """Gives `folder` the library and its state; returns the library's path there.

    Load it by that path, or put `folder` in LD_LIBRARY_PATH. `write_state` on
    the file beside it changes the machine under running processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = build_library(cache_dir)
    write_state(folder / STATE_NAME, nvml)
    # A name of its own, then a rename: processes that mapped an older build keep it.
    temporary = folder / f".{LIBRARY_NAME}.{os.getpid()}"
    shutil.copyfile(library, temporary)
    temporary.chmod(0o755)
    temporary.replace(folder / LIBRARY_NAME)
    return folder / LIBRARY_NAME


def find_compiler() -> str:
    """The C compiler's path: $CC, or the first of cc, gcc, clang.

    Raises:
        BuildError: there is none.
    """
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise BuildError(
        "the simulated NVML is compiled from C, but no cc, gcc or clang is on the PATH: "
        "install one (apt-get install gcc libc6-dev, or dnf install gcc) or set CC"
    )


def _compile(compiler: str, target: Path) -> None:
    exports = f"-Wl,--version-script={_SOURCES / 'exports.map'}"
    files = [str(path) for path in sources() if path.suffix == ".c"]
    argv = [compiler, *_FLAGS, exports, "-o", str(target), *files, *_LIBRARIES]
    try:
        done = subprocess.run(  # noqa: S603
            argv, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{compiler} did not compile the simulated NVML: {error}") from error
    if done.returncode != 0:
        raise BuildError(
            f"{compiler} did not compile the simulated NVML (exit {done.returncode}); if headers "
            f"are missing, install libc6-dev or glibc-devel:\n{done.stderr.strip()[-2000:]}"
        )
