"""Lines that say how a task ended → TaskExit, torchrun's and Hydra's blocks put together."""

from epilog.model import TaskExit
from epilog.scan.result import Source
from epilog.scan.sight import Sight, number
from epilog.scan.times import parse_time

MAX_EXITS = 65_536
MAX_PENDING = 4096

# Whose lines on task ends spread over a block; the others say all on one line.
_BLOCKS = ("torchrun", "mpi")

# Slurm's, bash's and torch's names; Slurm says "Out Of Memory" of a task that its kernel killed.
_SIGNALS = {
    "Hangup": 1, "Interrupt": 2, "Illegal instruction": 4, "Aborted": 6, "Bus error": 7,
    "Floating point exception": 8, "Killed": 9, "Segmentation fault": 11, "Alarm clock": 14,
    "Terminated": 15, "Out Of Memory": 9, "SIGHUP": 1, "SIGINT": 2, "SIGILL": 4, "SIGABRT": 6,
    "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGSEGV": 11, "SIGTERM": 15,
}  # fmt: skip


class Exits:
    """Collects task ends over all files."""

    def __init__(self, around: float | None) -> None:
        self._around = around
        self._pending: dict[tuple[object, ...], dict[str, str]] = {}
        self._exits: dict[TaskExit, None] = {}

    def take(self, sight: Sight, source: Source) -> None:
        """Note a line of a signature with record = "exit". A line that ends a block gets the
        block's fields, so that its evidence knows rank and host."""
        key = (source.name, sight.prefix.stream)
        fields = sight.fields
        if "exitcode" not in fields and "signal" not in fields:
            if key in self._pending or len(self._pending) < MAX_PENDING:
                pending = self._pending.setdefault(key, {})
                if "first" in fields or "time" in fields:
                    keep_first = "first" in pending and "time" not in pending
                    pending.clear()
                    pending |= {"first": "1"} if keep_first or "first" in fields else {}
                pending.update({k: v for k, v in fields.items() if k != "first"})
            return
        if sight.signature.subject in _BLOCKS and sight.signature.pattern.startswith("^"):
            for name, value in self._pending.pop(key, {}).items():
                fields.setdefault(name, value)
        for exit_ in self._build(sight):
            if len(self._exits) < MAX_EXITS:
                self._exits[exit_] = None

    def all(self) -> tuple[TaskExit, ...]:
        """Every task end that names a rank, a task or a host, in order of appearance."""
        return tuple(self._exits)

    def _build(self, sight: Sight) -> list[TaskExit]:
        fields = sight.fields
        code, signal = _signed(fields.get("exitcode")), _signal(fields.get("signal"))
        if code is not None and code < 0:
            signal, code = -code, None
        time = fields.get("time")
        at = parse_time(time, self._around) if time else sight.prefix.at
        rank, host = number(fields.get("rank"), sight.prefix.rank), sight.host
        labels: list[int | None] = list(expand(fields["tasks"])) if "tasks" in fields else [None]
        return [
            TaskExit(rank=rank, node=host, exit_code=code, signal=signal, at=at, label=label)
            for label in labels
            if rank is not None or host is not None or label is not None
        ]


def expand(tasks: str, limit: int = 4096) -> list[int]:
    """Slurm's list of tasks, `0-3,7`, as numbers; at most `limit` of them."""
    found: list[int] = []
    for part in tasks.split(","):
        low, _, high = part.partition("-")
        first = number(low)
        last = number(high, first) if high else first
        if first is None or last is None or last < first:
            continue
        found += range(first, min(last, first + limit - len(found) - 1) + 1)
        if len(found) >= limit:
            break
    return found


def _signal(text: str | None) -> int | None:
    return None if text is None else number(text, _SIGNALS.get(text))


def _signed(text: str | None) -> int | None:
    if text is None:
        return None
    value = number(text.removeprefix("-"))
    if value is None:
        return None
    return -value if text.startswith("-") else value
