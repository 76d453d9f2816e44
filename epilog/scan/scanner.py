"""Scanning a job's logs: files in, evidence and records out. One pass, bounded memory."""

import os
import stat
from collections import deque
from collections.abc import Iterable
from typing import BinaryIO

from epilog.model import Evidence
from epilog.scan.blocks import Progress, RawLine, Watch, matched_lines
from epilog.scan.exits import Exits
from epilog.scan.keep import MAX_KEPT, Keeper
from epilog.scan.matcher import Matcher, literal_table, make_matcher
from epilog.scan.places import Places
from epilog.scan.prefix import PrefixParser
from epilog.scan.result import Attempt, ScanResult, Settings, Source
from epilog.scan.sight import Eye, Sight
from epilog.scan.silence import MOST_TAILS, TAIL, silence
from epilog.scan.tracebacks import CHAINED, HEADER, Tracebacks
from epilog.scan.works import Works
from epilog.signatures import Catalogue, Signature, load

STORM = 20_000
"""Lines of one signature in one file that are read at once; of later ones only the last."""
STORM_KEEPS = 512
MAX_ATTEMPTS = 1000
ENDED = ("scheduler/time-limit", "scheduler/cancelled")

Input = str | Source | tuple[str, BinaryIO]


def scan_files(
    inputs: Iterable[Input],
    settings: Settings | None = None,
    catalogue: Catalogue | None = None,
    matcher: Matcher | None = None,
) -> ScanResult:
    """Scan logs given as paths, as (name, binary stream) or as Source.

    A file that cannot be opened or read is named in the result's notes; nothing else is raised
    but SignatureError where the signatures themselves are broken. Paths are opened as they are:
    of untrusted ones open the streams yourself.
    """
    scan = _Scan(settings or Settings(), catalogue or load(), matcher)
    sources = [opened for given in inputs if (opened := scan.opened(given))]
    scan.choose_matcher(sources)
    for source, mine in sources:
        try:
            scan.file(source)
        finally:
            if mine:
                source.stream.close()
    return scan.result()


class _Scan:
    """What is known over all files of a scan."""

    def __init__(self, settings: Settings, catalogue: Catalogue, matcher: Matcher | None) -> None:
        self._settings = settings
        self._signatures = catalogue.signatures
        triggers = [signature.triggers for signature in catalogue.signatures]
        self._header, self._chain = len(triggers), len(triggers) + 1
        self._literals, self._owners = literal_table([*triggers, (HEADER,), CHAINED])
        self._after_traceback = [s for s in catalogue.signatures if s.after_traceback]
        self._matcher = matcher
        self._eye = Eye(catalogue)
        self._parser = PrefixParser(settings.nodes, settings.started_at)
        self._works, self._places = Works(), Places()
        self._exits = Exits(settings.started_at)
        self._evidence: list[Keeper] = []
        self._context: list[Keeper] = []
        self._attempts: list[Attempt] = []
        self._counts: dict[str, int] = {}
        self._notes: list[str] = []
        self._tails: list[tuple[Source, bytes]] = []
        self._bytes = 0

    def opened(self, given: Input) -> tuple[Source, bool] | None:
        """The source, and whether it was opened here."""
        if isinstance(given, Source):
            return given, False
        if isinstance(given, tuple):
            return Source(given[0], given[1]), False
        try:
            stream = open(given, "rb", buffering=0)  # noqa: SIM115 - closed after its scan
            info = os.fstat(stream.fileno())
        except OSError as error:
            self._notes.append(f"{given}: not read: {error.strerror or error}")
            return None
        size = info.st_size if stat.S_ISREG(info.st_mode) else None
        return Source(given, stream, size), True

    def choose_matcher(self, sources: list[tuple[Source, bool]]) -> None:
        """Small logs do not wait for Hyperscan to be imported and to compile."""
        if self._matcher is None:
            sizes = [source.size for source, _ in sources]
            known = [size for size in sizes if size is not None]
            total = sum(known) if len(known) == len(sizes) else None
            self._matcher = make_matcher(self._literals, total)

    def file(self, source: Source) -> None:
        """Scan one source to its end."""
        settings = self._settings
        room = MAX_KEPT - sum(keeper.kept for keeper in (*self._evidence, *self._context))
        scan = _FileScan(
            self,
            source,
            Keeper(source, settings.keep, room, settings.started_at),
            Keeper(source, settings.keep, room, settings.started_at),
        )
        self._evidence.append(scan.keeper)
        self._context.append(scan.context)
        progress = Progress()
        assert self._matcher is not None
        try:
            for raw in matched_lines(source.stream, self._matcher, scan.watch, progress):
                scan.line(raw)
        except OSError as error:
            self._notes.append(
                f"{source.name}: read up to byte {progress.bytes_read}: {error.strerror or error}"
            )
        scan.finish()
        if len(self._tails) < MOST_TAILS:
            self._tails.append((source, b"".join(progress.last)[-TAIL:]))
        self._bytes += progress.bytes_read
        if progress.long_lines:
            self._notes.append(f"{source.name}: a line without end was read in pieces")

    def result(self) -> ScanResult:
        """Everything, put together."""
        evidence = tuple(e for keeper in self._evidence for e in keeper.evidence())
        return ScanResult(
            evidence=evidence,
            works=self._works.all(),
            exits=self._exits.all(),
            places=self._places.all(),
            attempts=tuple(self._attempts),
            context=(
                *(e for keeper in self._context for e in keeper.evidence()),
                *self._silence(evidence),
            ),
            counts=dict(sorted(self._counts.items())),
            notes=tuple(self._notes),
            bytes_read=self._bytes,
        )

    def _silence(self, evidence: Iterable[Evidence]) -> list[Evidence]:
        """Of a job that Slurm ended by its own word."""
        ends = [e.at for e in evidence if e.klass in ENDED and "time" in e.fields]
        times = [at for at in ends if at is not None]
        return silence(self._tails, min(times), self._parser) if times else []

    def record(self, sight: Sight, source: Source) -> None:
        """Feed the records that the sight's signature names."""
        record = sight.signature.record
        if record == "work":
            self._works.take(sight, source.rank if sight.rank is None else sight.rank)
        elif record == "exit":
            self._exits.take(sight, source)
        elif record == "attempt" and len(self._attempts) < MAX_ATTEMPTS:
            self._attempts.append(Attempt(source.name, sight.line, sight.prefix.at))
        if record == "place":
            self._places.take_communicator(sight)
        else:
            self._places.take(sight)


class _FileScan:
    """What is known of the file that is being read."""

    def __init__(self, scan: _Scan, source: Source, keeper: Keeper, context: Keeper) -> None:
        self._scan, self._source = scan, source
        self.keeper, self.context = keeper, context
        self.watch = Watch()
        self._tracebacks = Tracebacks(scan._parser)
        self._seen: dict[int, int] = {}
        self._late: dict[int, deque[RawLine]] = {}

    def line(self, raw: RawLine) -> None:
        """Take one matched line, or one that an open traceback asked for."""
        owners = self._scan._owners
        numbers = {number for literal in raw.literals for number in owners[literal]}
        if self._scan._chain in numbers:
            self._tracebacks.note_chain(raw.data)
        facts = None
        if self._scan._header in numbers or self.watch.lines:
            facts = self._tracebacks.take(raw.data, self._scan._header in numbers)
            self.watch.lines = self._tracebacks.active
        numbers.discard(self._scan._header)
        numbers.discard(self._scan._chain)
        if numbers and facts is None and self._is_storm(numbers, raw):
            return
        candidates = [self._scan._signatures[number] for number in sorted(numbers)]
        if facts is not None:
            candidates += self._scan._after_traceback
        if candidates:
            self._read(raw, candidates, facts)

    def finish(self) -> None:
        """Read the last lines of signatures that came too often."""
        late = {raw.number: raw for lines in self._late.values() for raw in lines}
        for _, raw in sorted(late.items()):
            owners = self._scan._owners
            numbers = {n for literal in raw.literals for n in owners[literal]}
            numbers -= {self._scan._header, self._scan._chain}
            self._read(raw, [self._scan._signatures[n] for n in sorted(numbers)], None, late=True)

    def _is_storm(self, numbers: set[int], raw: RawLine) -> bool:
        storm = True
        for number in numbers:
            self._seen[number] = self._seen.get(number, 0) + 1
            storm = storm and self._seen[number] > STORM
        if storm:
            self._late.setdefault(min(numbers), deque(maxlen=STORM_KEEPS)).append(raw)
            for number in numbers:
                self._count(self._scan._signatures[number])
        return storm

    def _count(self, signature: Signature) -> None:
        counts = self._scan._counts
        counts[signature.id] = counts.get(signature.id, 0) + 1

    def _read(
        self,
        raw: RawLine,
        candidates: list[Signature],
        facts: dict[str, str] | None,
        late: bool = False,
    ) -> None:
        for sight in self._scan._eye.look(
            raw.number, raw.data, candidates, self._scan._parser, facts
        ):
            if not late:
                self._count(sight.signature)
            self._scan.record(sight, self._source)
            if sight.signature.extends:
                self.keeper.extend(sight)
            elif sight.says:
                (self.context if sight.signature.context else self.keeper).add(sight)
