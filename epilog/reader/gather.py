"""In the child: find, open and read what the errand names. Runs with the user's rights."""

import io
import os
import time
from collections.abc import Iterator
from glob import has_magic, iglob
from typing import BinaryIO, cast

import msgspec

from epilog.model import RankPlace
from epilog.reader import rank_map
from epilog.reader.errand import Errand, FileRead, Found
from epilog.reader.open_file import Opened, Unfit, open_users
from epilog.reader.paths import codes_of_name
from epilog.reader.torchrun import MAX_BYTES, WorkerError, parse_error_file
from epilog.reader.window import Window
from epilog.recorder import RecorderResult, read_dumps
from epilog.scan import ScanResult, Settings, Source, scan_files
from epilog.signatures import Catalogue

MAX_LOGS = 2048
"""Logs of one job."""
MAX_DUMPS = 4096
MAX_ERRORS = 256
MAX_MAPS = 4096
MAX_LOOKED_AT = 65_536
SLACK_S = 60.0
RECORDER_SHARE = 0.4
"""Of the time; logs come first."""


def gather(
    errand: Errand, notes: list[str], deadline: float, catalogue: Catalogue | None = None
) -> Iterator[Found]:
    """Everything, in the order of its worth: logs and error files, then the flight recorder."""
    yield _logs(errand, notes, catalogue)
    yield Found(recorder=_dumps(errand, deadline))


def _logs(errand: Errand, notes: list[str], catalogue: Catalogue | None) -> Found:
    sources: list[Source] = []
    files: list[FileRead] = []
    for path, pattern in _log_paths(errand, notes):
        try:
            log = Log(path, errand.uid, errand.max_log)
        except Unfit as unfit:
            notes.append(f"{_shown(path)}: not read: {unfit}")
            continue
        name = _shown(path)
        if log.cut:
            notes.append(f"{name}: {log.size:,} bytes, {log.cut:,} of its middle left out")
        files.append(FileRead(name, log.size, log.cut))
        told = codes_of_name(path, pattern, errand.known)
        task = told.get("t")
        sources.append(
            Source(
                name,
                cast(BinaryIO, log),
                log.size - log.cut,
                host=told.get("N"),
                label=int(task[:7]) if task else None,
            )
        )
    places = _places(errand, notes)
    errors = _errors(errand, notes)
    for path, error in errors.items():
        text = error.text.encode("utf-8", "replace")
        sources.append(Source(path, io.BytesIO(text), len(text), host=errand.node or None))
    if not sources:
        return Found(scan=ScanResult(places=places), notes=tuple(notes))
    settings = Settings(started_at=errand.since, nodes=errand.nodes)
    scan = _with_workers(scan_files(sources, settings, catalogue), errors)
    # What a task wrote of itself comes before what can be read out of a line of a log.
    scan = msgspec.structs.replace(scan, places=(*places, *scan.places))
    return Found(scan=scan, files=tuple(files), notes=tuple(notes))


class Log:
    """A log that is opened when it is read and closed at its end: a job may have thousands.

    Raises Unfit at once where the file is not fit, OSError later where it no longer is.
    """

    def __init__(self, path: str, uid: int, bound: int) -> None:
        opened = open_users(path, uid)
        opened.file.close()
        self._path, self._uid, self._bound = path, uid, bound
        self.size = opened.size
        self.cut = max(0, opened.size - bound)
        self._opened: Opened | None = None
        self._window: Window | None = None

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; b"" at the end."""
        if self._window is None:
            try:
                self._opened = open_users(self._path, self._uid)
            except Unfit as unfit:
                raise OSError(str(unfit)) from None
            self._window = Window(self._opened.file, self.size, self._bound)
        chunk = self._window.read(size)
        if not chunk and self._opened is not None:
            self._opened.file.close()
        return chunk


def _log_paths(errand: Errand, notes: list[str]) -> Iterator[tuple[str, str]]:
    """Every log once, however many patterns name it, with the pattern."""
    seen: set[str] = set()
    patterns = errand.patterns or ("",) * len(errand.logs)
    for log, pattern in zip(errand.logs, patterns, strict=False):
        found = False
        for path in _matching(log, MAX_LOGS):
            found = True
            if path not in seen:
                seen.add(path)
                yield path, pattern
        if not found:
            notes.append(f"{log}: no such file")
        if len(seen) >= MAX_LOGS:
            notes.append(f"only the first {MAX_LOGS} logs were read")
            return


def _places(errand: Errand, notes: list[str]) -> tuple[RankPlace, ...]:
    """The job's rank maps."""
    files: list[tuple[str, bytes]] = []
    for opened in _recent(errand, errand.rank_maps, MAX_MAPS, notes):
        try:
            files.append((opened.path, opened.file.read(rank_map.MAX_BYTES)))
        except OSError:
            pass
        opened.file.close()
    return rank_map.parse_rank_maps(files)


def _errors(errand: Errand, notes: list[str]) -> dict[str, WorkerError]:
    """torchrun's error files of this job: the last attempt of each run."""
    found: dict[str, WorkerError] = {}
    for opened in _recent(errand, errand.error_files, MAX_ERRORS, notes):
        try:
            error = parse_error_file(opened.path, opened.file.read(MAX_BYTES))
        except OSError:
            error = None
        opened.file.close()
        if error is not None:
            found[_shown(opened.path)] = error
    last: dict[str, int] = {}
    for path, error in found.items():
        run = path.partition("/attempt_")[0]
        last[run] = max(last.get(run, 0), error.attempt)
    return {p: e for p, e in found.items() if e.attempt == last[p.partition("/attempt_")[0]]}


def _with_workers(scan: ScanResult, errors: dict[str, WorkerError]) -> ScanResult:
    """Give lines out of error files the worker and the time that the file tells."""
    if not errors:
        return scan
    evidence = tuple(
        msgspec.structs.replace(
            e,
            local_rank=e.local_rank if e.local_rank is not None else errors[e.file].local_rank,
            at=e.at if e.at is not None else errors[e.file].at,
        )
        if e.file in errors
        else e
        for e in scan.evidence
    )
    return msgspec.structs.replace(scan, evidence=evidence)


def _dumps(errand: Errand, deadline: float) -> RecorderResult:
    notes: list[str] = []

    def files() -> Iterator[tuple[str, BinaryIO]]:
        for opened in _recent(errand, errand.recorder, MAX_DUMPS, notes):
            yield _shown(opened.path), opened.file
            opened.file.close()

    until = time.monotonic() + (deadline - time.monotonic()) * RECORDER_SHARE
    result = read_dumps(files(), until)
    return msgspec.structs.replace(result, notes=(*result.notes, *notes))


def _recent(
    errand: Errand, patterns: tuple[str, ...], most: int, notes: list[str]
) -> Iterator[Opened]:
    """The user's own files of these patterns that are no older than the job.

    Nobody promised them, so a file that is not fit is passed over without a word, unless there
    are too many.
    """
    seen: set[str] = set()
    for pattern in patterns:
        for path in _matching(pattern, MAX_LOOKED_AT):
            if path in seen:
                continue
            if len(seen) >= most:
                notes.append(f"{pattern}: only the first {most} files were read")
                return
            try:
                opened = open_users(path, errand.uid)
            except Unfit:
                continue
            if errand.since is not None and opened.changed_at < errand.since - SLACK_S:
                opened.file.close()
                continue
            seen.add(path)
            yield opened


def _shown(path: str) -> str:
    """The path as text that can be told: a user's file may have any bytes in its name."""
    return os.fsencode(path).decode("utf-8", "replace")


def _matching(pattern: str, most: int) -> Iterator[str]:
    """Paths of a glob, at most `most` of them. A pattern without wildcards is one path."""
    if not has_magic(pattern):
        yield pattern
        return
    for number, path in enumerate(iglob(pattern)):
        if number >= most:
            return
        yield path
