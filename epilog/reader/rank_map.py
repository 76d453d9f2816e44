"""Rank maps: where each rank ran, as the tasks themselves wrote it down at their start.

Files `ranks-RESTART-STEP-NODE.jsonl` of the task prolog, written as the job's user, so a hint and
never a fact. Only the last step of the last attempt counts: an earlier one's ranks ran elsewhere.
"""

import re
from collections.abc import Iterable

import msgspec

from epilog.model import RankPlace
from healthcheck.strict_json import decode_json

MAX_BYTES = 1 << 20
_NAME = re.compile(r"/ranks-(\d{1,9})-(\d{1,10})-[A-Za-z0-9._-]{1,255}\.jsonl\Z")


class _Line(msgspec.Struct, frozen=True):
    """One task. What may be a launcher (torchrun) has a label in place of a rank."""

    host: str
    rank: int | None = None
    label: int | None = None
    local_rank: int | None = None
    gpu_uuid: str | None = None
    pid: int | None = None


def attempt_of(path: str) -> tuple[int, int] | None:
    """(restart, step) in a rank map's name; None for another file."""
    found = _NAME.search(path)
    return (int(found[1]), int(found[2])) if found else None


def parse_rank_maps(files: Iterable[tuple[str, bytes]]) -> tuple[RankPlace, ...]:
    """The places of the last step of the last attempt, by rank. Odd lines are passed over."""
    maps = [(attempt, data) for path, data in files if (attempt := attempt_of(path)) is not None]
    if not maps:
        return ()
    last = max(attempt for attempt, _ in maps)
    places: dict[int, RankPlace] = {}
    for attempt, data in maps:
        if attempt != last:
            continue
        for text in data.splitlines():
            try:
                line = decode_json(text, _Line)
            except msgspec.MsgspecError:
                continue
            place = _place(line)
            if place is not None:
                places.setdefault(place.rank, place)
    return tuple(places[rank] for rank in sorted(places))


def _place(line: _Line) -> RankPlace | None:
    launcher = line.rank is None
    number = line.label if launcher else line.rank
    if number is None or not 0 <= number < 1 << 24 or not line.host:
        return None
    host = line.host[:255]
    return RankPlace(number, host, line.local_rank, line.gpu_uuid, line.pid, launcher)
