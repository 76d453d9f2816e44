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
    try:
        with _ended_in_order() as command, _folder(folder) as root:
            prepare(root, type_name, faults, node)
            return execute(root, argv, command)
    except _EndedError as ended:
        return 128 + ended.number


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


def execute(root: str, argv: Sequence[str], command: "Command") -> int:
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
        code = command.run([program, *argv[1:]], {**os.environ, **variables})
    except OSError as error:
        print(f"flightcheck: {program}: {error.strerror}", file=sys.stderr)
        return EX_NOT_EXECUTABLE
    return 128 - code if code < 0 else code


class _EndedError(BaseException):
    """Somebody asked us to end before the command ran. No SystemExit: the registry takes that for
    the error of a check that it imports.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Command:
    """The user's command, and what becomes of signals before, while and after it starts."""

    def __init__(self) -> None:
        self._starting = False
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []

    def run(self, argv: Sequence[str], env: dict[str, str]) -> int:
        """Start it and wait for its end; negative where a signal ended it."""
        self._starting = True
        self._child = subprocess.Popen(argv, env=env)  # noqa: S603 - the user's own, no shell
        for number in self._waiting:
            self._child.send_signal(number)
        # A terminal sends its interrupt to both of us; the command decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return self._child.wait()

    def end(self, number: int, _frame: object) -> None:
        """A signal that asks us to end goes to the command; we end after it."""
        if self._child is not None:
            self._child.send_signal(number)
        elif self._starting:
            self._waiting.append(number)
        else:
            raise _EndedError(number)


@contextmanager
def _ended_in_order() -> Iterator[Command]:
    """Whoever asks us to end finds the machine cleaned up, however early."""
    command = Command()
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, command.end) for number in numbers]
    before.append(signal.getsignal(signal.SIGINT))
    try:
        yield command
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
