"""What this node's earlier runs gave: `allreduce.json` in the state folder, bounded."""

import msgspec

from healthcheck.allreduce.middle import median
from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult
from healthcheck.own_folder import own_folder
from healthcheck.strict_json import decode_json
from healthcheck.whole_file import write_whole

FILE = "allreduce.json"
VERSION = 1
MOST = 64
MAX_BYTES = 1 << 20


class Run(msgspec.Struct, frozen=True):
    """One finished run. `busbw_gb_s` by message size in bytes; `passed`: nothing was found."""

    at: float
    backend: str
    ranks: int
    depth: str
    passed: bool
    duration_s: float
    end: AllreduceEnd
    busbw_gb_s: dict[int, float] = {}


class History(msgspec.Struct, frozen=True):
    """Runs, oldest first."""

    version: int = VERSION
    runs: tuple[Run, ...] = ()

    def last_pass(self, backend: str, ranks: int) -> float | None:
        """Unix time of the last run that found nothing, with as many ranks."""
        times = [r.at for r in self._like(backend, ranks) if r.passed]
        return max(times, default=None)

    def duration(self, backend: str, ranks: int, depth: str) -> float | None:
        """The longest of the last five durations, in seconds."""
        own = [r.duration_s for r in self._like(backend, ranks) if r.depth == depth and r.passed]
        return max(own[-5:], default=None)

    def usual(self, backend: str, ranks: int, size: int) -> tuple[float | None, int]:
        """(median GB/s of the passed runs of this size, how many there were)."""
        own = [
            r.busbw_gb_s[size]
            for r in self._like(backend, ranks)
            if r.passed and size in r.busbw_gb_s
        ]
        return (median(own), len(own)) if own else (None, 0)

    def _like(self, backend: str, ranks: int) -> list[Run]:
        return [run for run in self.runs if run.backend == backend and run.ranks == ranks]


def load_history(folder: str) -> tuple[History, str | None]:
    """(history, note). An unreadable one is set aside by starting anew; the note says so."""
    path = f"{folder}/{FILE}"
    try:
        with open(path, "rb") as file:
            history = decode_json(file.read(MAX_BYTES), History)
        if history.version != VERSION:
            raise ValueError(f"version {history.version}, expected {VERSION}")
    except FileNotFoundError:
        return History(), None
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        return History(), f"{path} cannot be used ({error}): earlier runs are forgotten"
    return history, None


def with_usual(result: AllreduceResult, history: History) -> AllreduceResult:
    """The result with this node's earlier figures beside its own."""
    points = []
    for point in result.bandwidth:
        usual, count = history.usual(result.backend, result.ranks, point.bytes)
        points.append(msgspec.structs.replace(point, usual_gb_s=usual, usual_runs=count))
    return msgspec.structs.replace(result, bandwidth=tuple(points))


def remember(folder: str, history: History, result: AllreduceResult, passed: bool) -> str | None:
    """Write the history with this run; a note where that fails. Best effort, atomic."""
    run = Run(
        at=result.started_at,
        backend=result.backend,
        ranks=result.ranks,
        depth=result.depth,
        passed=passed,
        duration_s=result.duration_s,
        end=result.end,
        busbw_gb_s={point.bytes: point.busbw_gb_s for point in result.bandwidth},
    )
    data = msgspec.json.encode(History(runs=(*history.runs, run)[-MOST:]))
    try:
        own_folder(folder)
        write_whole(f"{folder}/{FILE}", data + b"\n")
    except OSError as error:
        return f"{folder}/{FILE} was not written: {error.strerror}"
    return None
