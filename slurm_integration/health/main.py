"""`flightcheck-health`: the entry point that slurmd's HealthCheckProgram calls.

slurmd gives it SLURMD_NODENAME and a minute, and only logs how it ends. Whatever breaks in here,
import errors included, is told and exits 0 (law 2). As much like the other hooks' entry points as
it looks: shared code would be one more import that can break outside of the guard.
"""

import os
import sys
import time


class _EndedError(BaseException):
    """Somebody asked this process to end: slurmd at its own deadline, or as it stops."""


def main() -> None:
    """Look at the node, whether a job runs here or not, act, exit."""
    started = time.monotonic()
    try:
        from healthcheck.guard import guarded

        code = guarded(lambda: _safely(started), "health program")
    except BaseException:  # noqa: BLE001 - without the guard it still flies
        code = _safely(started)
    _leave(code)


def _safely(started: float) -> int:
    """The exit code; 0 whatever breaks."""
    try:
        return _look(started)
    except _EndedError as ended:
        _say(f"unknown: ended by {ended} before it was done")
    except BaseException:  # noqa: BLE001 - a bug, or somebody's sys.exit, must not drain the node
        _tell_bug()
    return 0


def _look(started: float) -> int:
    import signal

    from healthcheck.host import host_at
    from healthcheck.reading import Plan, launch

    # Killed by a signal, a hook is a failure to slurmd, which drains the node for it.
    signal.signal(signal.SIGTERM, _end)
    host = host_at(os.environ.get("FLIGHTCHECK_ROOT"))
    # NVML's binding takes as long to import as everything else together: start it first.
    early = [launch("nvml", host, Plan(stage="health"))]
    from slurm_integration.health.stage import run_health

    return run_health(host, os.environ, early, started)


def _end(number: int, _: object) -> None:
    import signal

    signal.signal(number, signal.SIG_IGN)
    raise _EndedError(f"signal {number}")


def _say(text: str) -> None:
    try:
        print(f"flightcheck: {text}", flush=True)
    except OSError:
        pass


def _tell_bug() -> None:
    try:
        import traceback

        traceback.print_exc()
        print(
            "flightcheck: unknown: the health program broke (see above); nothing was drained. "
            "Run `flightcheck check --stage health` by hand on this node.",
            file=sys.stderr,
        )
    except BaseException:  # noqa: BLE001 - not even standard error is there
        pass


def _leave(code: int) -> None:
    """Exit without the interpreter's own clean-up, which a hung child could hold."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    os._exit(code)


if __name__ == "__main__":
    main()
