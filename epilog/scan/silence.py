"""Had a job that Slurm ended been silent for long before? Then it hung, and more time is no help.

Lines of healthy training are matched by no signature, so the last bytes of each log are looked at
for times: how long before Slurm's words the last one stood, how long pauses were until then, and
whether one rank had stopped to write before all others.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from epilog.model import Evidence, Role
from epilog.scan.prefix import PrefixParser
from epilog.scan.result import Source
from epilog.scan.text import segments

TAIL = 64 << 10
"""Bytes at the end of a log that are looked at."""
MOST_TAILS = 64
HUNG, FIRST = "silence", "silence-first"
TEARDOWN_S = 5.0
"""What is written as close to the end as this answers Slurm's signal."""
LONGEST_S = 30 * 86_400.0
LEAST_S = 300.0
LEAST_LEAD_S = 60.0
FACTOR = 3.0
"""Silence counts from so many longest pauses before it on: evaluations and saves pause too."""
LEAST_LINES = 5
LEAST_WRITERS = 3
LEAST_OF_EACH = 3


class _Word(msgspec.Struct, frozen=True):
    """A line with a time. `rank` or `label` of its writer, where it has one."""

    at: float
    file: str
    rank: int | None
    label: int | None


def silence(
    tails: Iterable[tuple[Source, bytes]], ended_at: float, parser: PrefixParser
) -> list[Evidence]:
    """What the ends of all logs tell of the time before `ended_at` (unix seconds); mostly nothing.

    One sight for the silence, with `silent_s` and `pause_s`, and one for each of the few ranks
    that fell silent clearly before the others, with `lead_s`.
    """
    words = [w for source, tail in tails for w in _words(source, tail, ended_at, parser)]
    words.sort(key=lambda w: w.at)
    if len(words) < LEAST_LINES:
        return []
    last, pause = words[-1], _longest_pause(words)
    silent = ended_at - last.at
    if silent < max(LEAST_S, FACTOR * pause):
        return []
    text = (
        f"nothing was written in the last {silent:.0f} s, where pauses had been no longer than "
        f"{pause:.0f} s"
    )
    fields = {"silent_s": f"{silent:.0f}", "pause_s": f"{pause:.0f}"}
    return [_sight(last, HUNG, text, fields, named=False), *_first(words)]


def _words(source: Source, tail: bytes, ended_at: float, parser: PrefixParser) -> Iterable[_Word]:
    for line in tail.split(b"\n")[1 if len(tail) >= TAIL else 0 :]:
        for text in segments(line)[-1:]:
            prefix = parser.parse(text)
            at, rank = prefix.at, prefix.best_rank
            if at is None or not ended_at - LONGEST_S < at < ended_at - TEARDOWN_S:
                continue
            rank = source.rank if rank is None else rank
            label = source.label if prefix.label is None else prefix.label
            yield _Word(at, source.name, rank, label)


def _longest_pause(words: Sequence[_Word]) -> float:
    return max((b.at - a.at for a, b in pairwise(words)), default=0.0)


def _first(words: Sequence[_Word]) -> list[Evidence]:
    """The one or two writers whose last word came before everybody else's, by far."""
    writers: dict[tuple[int | None, int | None], list[_Word]] = {}
    for word in words:
        if (word.rank, word.label) != (None, None):
            writers.setdefault((word.rank, word.label), []).append(word)
    steady = [mine for mine in writers.values() if len(mine) >= LEAST_OF_EACH]
    if len(steady) < LEAST_WRITERS:
        return []
    latest = max(mine[-1].at for mine in steady)
    early = [
        mine
        for mine in steady
        if latest - mine[-1].at > max(LEAST_LEAD_S, FACTOR * _longest_pause(mine))
    ]
    if not early or len(early) > 2 or 2 * len(early) >= len(steady):
        return []
    return [
        _sight(
            mine[-1],
            FIRST,
            f"wrote nothing more while others still did, for {latest - mine[-1].at:.0f} s",
            {"lead_s": f"{latest - mine[-1].at:.0f}"},
        )
        for mine in early
    ]


def _sight(
    word: _Word, signature: str, text: str, fields: dict[str, str], *, named: bool = True
) -> Evidence:
    return Evidence(
        file=word.file,
        line=0,
        role=Role.SYMPTOM,
        klass="unknown/hang",
        text=text,
        signature=signature,
        rank=word.rank if named else None,
        label=word.label if named else None,
        at=word.at,
        fields=fields,
    )
