"""Running a command on one simulated node."""

import os
import shutil
import signal
import subprocess  # noqa: TID251 - starts the user's own command
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from slurm_integration.sandbox.machine.live import (
    MachineError,
    break_machine,
    build_machine,
    environment,
    has_baseline,
    read_record,
    take_baseline,
)

EX_NOT_FOUND, EX_NOT_EXECUTABLE = 127, 126
"""As a shell answers."""


def run(
    type_name: str, faults: Sequence[str], folder: str | None, node: str, argv: Sequence[str]
) -> int:
    """Build or reuse the machine, break it, run the command there; the command's exit code.

    Raises MachineError, FaultError, BuildError, OSError.
    """
    with _folder(folder) as root:
        prepare(root, type_name, faults, node)
        return execute(root, argv)


def prepare(root: str, type_name: str, faults: Sequence[str], node: str) -> None:
    """A machine that has looked at itself while it was healthy, and then got the faults."""
    if os.path.isdir(root) and os.listdir(root):
        record = read_record(root)
        if record.type != type_name:
            raise MachineError(f"{root} holds a machine of type {record.type}, not {type_name}")
    else:
        build_machine(root, type_name, node)
    if faults:
        break_machine(root, *faults)
    elif not has_baseline(root):
        take_baseline(root)


def execute(root: str, argv: Sequence[str]) -> int:
    """Run the command with the machine in its environment; 128 + N where a signal N ended it."""
    variables = {**environment(root)}
    if "FLIGHTCHECK_CONFIG" in os.environ:
        variables["FLIGHTCHECK_CONFIG"] = os.environ["FLIGHTCHECK_CONFIG"]
    # Not resolved: in a venv the scripts lie beside the link to the interpreter.
    own = sys.executable.rpartition("/")[0]
    path = os.environ.get("PATH", os.defpath)
    variables["PATH"] = f"{own}:{path}" if own else path
    program = shutil.which(argv[0], path=variables["PATH"])
    if program is None:
        print(f"flightcheck: {argv[0]}: command not found", file=sys.stderr)
        return EX_NOT_FOUND
    try:
        child = subprocess.Popen(  # noqa: S603 - the user's own command, no shell
            [program, *argv[1:]], env={**os.environ, **variables}
        )
    except OSError as error:
        print(f"flightcheck: {program}: {error.strerror}", file=sys.stderr)
        return EX_NOT_EXECUTABLE
    with _passing_on(child):
        code = child.wait()
    return 128 - code if code < 0 else code


@contextmanager
def _passing_on(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Signals that ask us to end go to the command; we end after it, and clean up."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda n, _: child.send_signal(n)) for number in numbers]
    # A terminal sends its interrupt to both of us; the command decides what it means.
    before.append(signal.signal(signal.SIGINT, signal.SIG_IGN))
    try:
        yield
    finally:
        for number, handler in zip((*numbers, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _folder(wanted: str | None) -> Iterator[str]:
    """The folder asked for, which stays, or a temporary one, which goes.

    A call that hangs in the simulated NVML ends when its state file is gone.
    """
    if wanted is not None:
        yield os.path.abspath(wanted)
        return
    root = tempfile.mkdtemp(prefix="flightcheck-machine-")
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
