"""How each hook of Slurm begins and ends: whatever breaks, it exits with its decision's code or 0.

A non-zero exit of a prolog or epilog drains the node, so nothing but a decision may end that way:
a bug, an import that fails and a signal are told and exit with 0 (law 2).
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from healthcheck.host import Host
    from healthcheck.reading import Reading

    Run = Callable[[Host, Mapping[str, str], list[Reading], float], int]


class _EndedError(BaseException):
    """Somebody asked this process to end: slurmd at its own deadline, or as it stops."""


def run_hook(
    stage: str, load: "Callable[[], Run]", started: float, *, name: str, meanwhile: str = ""
) -> NoReturn:
    """Run a hook's stage function, which `load` imports, in a guarded child, and exit.

    `name` is what people call the hook; `meanwhile` says what goes on without it. `started` is in
    `time.monotonic()` seconds.
    """

    def hook() -> int:
        return _safely(stage, load, started, name, meanwhile)

    try:
        from healthcheck.guard import guarded

        code = guarded(hook, name)
    except BaseException:  # noqa: BLE001 - without the guard it still flies
        code = hook()
    leave(code)


def _safely(
    stage: str, load: "Callable[[], Run]", started: float, name: str, meanwhile: str
) -> int:
    """The exit code; 0 whatever breaks."""
    try:
        return _fly(stage, load, started)
    except _EndedError as ended:
        say(f"unknown: ended by {ended} before it was done{meanwhile}")
    except BaseException:  # noqa: BLE001 - a bug, or somebody's sys.exit, must not drain the node
        _tell_bug(stage, name, meanwhile)
    return 0


def _fly(stage: str, load: "Callable[[], Run]", started: float) -> int:
    import signal

    from healthcheck.host import host_at
    from healthcheck.reading import Plan, launch

    # Killed by a signal, a hook is a failure to slurmd, which drains the node for it.
    signal.signal(signal.SIGTERM, _end)
    host = host_at(os.environ.get("FLIGHTCHECK_ROOT"))
    # NVML's binding takes as long to import as everything else together: start it first.
    early = [launch("nvml", host, Plan(stage=stage))]
    return load()(host, os.environ, early, started)


def _end(number: int, _: object) -> None:
    import signal

    signal.signal(number, signal.SIG_IGN)
    raise _EndedError(f"signal {number}")


def _tell_bug(stage: str, name: str, meanwhile: str) -> None:
    try:
        import traceback

        traceback.print_exc()
        print(
            f"flightcheck: unknown: the {name} itself broke (see above){meanwhile}; nothing was "
            f"drained. Run `flightcheck check --stage {stage}` by hand on this node.",
            file=sys.stderr,
        )
    except BaseException:  # noqa: BLE001 - not even standard error is there
        pass


def say(text: str) -> None:
    """A line for slurmd's log, where there is anybody to hear it."""
    try:
        print(f"flightcheck: {text}", flush=True)
    except OSError:
        pass


def leave(code: int) -> NoReturn:
    """Exit without the interpreter's own clean-up, which a hung child could hold."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    os._exit(code)
