"""Zombies, and processes stuck in uninterruptible sleep.

Not part of the prolog: one file a process is read, several hundred on an idle node.
"""

import time
from typing import Any, NamedTuple

from healthcheck.host import Host
from healthcheck.reading import Ask

LOOKS = 3
PAUSE_S = 0.35
"""Between two looks at a blocked process: together about a second, which no healthy disk needs."""
MAX_NAMES = 16


class Stat(NamedTuple):
    """What /proc/PID/stat says: `started` (clock ticks since boot) tells a reused pid apart."""

    name: str
    state: str
    started: str


def read(ask: Ask) -> dict[str, Any]:
    """`processes`. Raises FileNotFoundError where there is no /proc."""
    ask.progress.note("list /proc")
    seen: dict[str, Stat] = {}
    for pid in (name for name in ask.host.list_dir("/proc") if name.isdigit()):
        stat = _stat(ask.host, pid)
        if stat is not None:
            seen[pid] = stat
    if not seen:
        raise FileNotFoundError(2, "no process could be read", "/proc")
    blocked = _still_blocked(ask.host, {p: s for p, s in seen.items() if s.state == "D"})
    return {
        "processes": {
            "total": len(seen),
            "zombies": sum(stat.state == "Z" for stat in seen.values()),
            "blocked": len(blocked),
            "blocked_names": [f"{pid} {stat.name}" for pid, stat in blocked.items()][:MAX_NAMES],
        }
    }


def parse_stat(text: str) -> Stat | None:
    """Name, state and start of a process; None for a text of another form.

    The name stands in parentheses and may itself hold spaces and parentheses, so the last
    closing one ends it (man 5 proc).
    """
    _, opening, rest = text.partition("(")
    name, closing, rest = rest.rpartition(")")
    columns = rest.split()
    if not opening or not closing or len(columns) < 20 or len(columns[0]) != 1:
        return None
    printable = "".join(c if c.isprintable() and c != "\ufffd" else "?" for c in name)
    return Stat(printable[:64], columns[0], columns[19])


def _still_blocked(host: Host, blocked: dict[str, Stat]) -> dict[str, Stat]:
    """Those of them that are in D at every further look."""
    for _ in range(LOOKS - 1):
        if not blocked:
            break
        time.sleep(PAUSE_S)
        blocked = {pid: stat for pid, stat in blocked.items() if _stat(host, pid) == stat}
    return blocked


def _stat(host: Host, pid: str) -> Stat | None:
    """A process's state; None where it has gone in the meantime."""
    try:
        return parse_stat(host.read_text(f"/proc/{pid}/stat", 2048))
    except OSError:
        return None
