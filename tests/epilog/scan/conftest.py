"""What the scanner's tests share."""

import io
import os
import time
from collections.abc import Callable, Iterator

import pytest

from epilog.scan import ScanResult, Settings, Source, scan_files, times
from epilog.signatures import load

CATALOGUE = load()
STARTED = 1_786_320_000.0  # 2026-08-10, UTC


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "TZ", "UTC")
    time.tzset()
    times._local.cache_clear()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def scan() -> Callable[..., ScanResult]:
    """Scan one log given as text or bytes."""

    def run(text: str | bytes, nodes: tuple[str, ...] = (), **source: object) -> ScanResult:
        data = text if isinstance(text, bytes) else text.encode()
        given = Source("job.out", io.BytesIO(data), len(data), **source)  # type: ignore[arg-type]
        return scan_files([given], Settings(started_at=STARTED, nodes=nodes), CATALOGUE)

    return run
