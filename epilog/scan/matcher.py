"""Finding the literals of all signatures in a block of bytes, in one pass."""

from collections.abc import Sequence
from typing import Any, Protocol

SMALL = 64 * 1024
"""Below this many bytes, bytes.find is done before Hyperscan is imported and has compiled."""
SHORTEST = 8


class Matcher(Protocol):
    """Finds literals. Which engine is behind it makes no difference to what is found."""

    def scan(self, block: memoryview) -> list[tuple[int, int]]:
        """(offset just behind a literal, number of the literal) of every one, in order."""


class FindMatcher:
    """bytes.find for each literal: any CPU, no start-up, about 4 MB/s."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = tuple(literals)

    def scan(self, block: memoryview) -> list[tuple[int, int]]:
        """See Matcher."""
        data = bytes(block)
        hits = []
        for number, literal in enumerate(self._literals):
            at = data.find(literal)
            while at >= 0:
                hits.append((at + len(literal), number))
                at = data.find(literal, at + 1)
        hits.sort()
        return hits


class HyperscanMatcher:
    """Hyperscan's literal matcher: several GB/s."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        import hyperscan

        self._database: Any = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=list(literals),
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[0] * len(literals),
            literal=True,
        )
        self._hits: list[tuple[int, int]] = []

    def scan(self, block: memoryview) -> list[tuple[int, int]]:
        """See Matcher."""
        self._hits = []
        if len(block):
            self._database.scan(block, match_event_handler=self._on_match)
        self._hits.sort()
        return self._hits

    def _on_match(self, number: int, _start: int, end: int, _flags: int, _context: object) -> None:
        self._hits.append((end, number))


def make_matcher(literals: Sequence[bytes], size: int | None) -> Matcher:
    """The matcher for `size` bytes of log (None: unknown, or endless).

    Hyperscan where it is installed and its 0.03 s of start-up pay; else bytes.find.
    """
    if size is not None and size <= SMALL:
        return FindMatcher(literals)
    try:
        return HyperscanMatcher(literals)
    except (ImportError, OSError):
        return FindMatcher(literals)


def literal_table(triggers: Sequence[Sequence[str]]) -> tuple[list[bytes], list[tuple[int, ...]]]:
    """The distinct literals, and for each the numbers of the signatures that wait for it."""
    owners: dict[bytes, list[int]] = {}
    for number, literals in enumerate(triggers):
        for literal in literals:
            owners.setdefault(_without_end(literal.encode()), []).append(number)
    return list(owners), [tuple(dict.fromkeys(numbers)) for numbers in owners.values()]


def _without_end(literal: bytes) -> bytes:
    """A literal without the blanks and colons at its end, where enough of it is left.

    Nearly every line of a log holds those, and Hyperscan looks at the ends of literals first: it
    is a tenth faster without. What is found more than before, the signature's expression refuses.
    """
    shorter = literal.rstrip(b" :")
    return shorter if len(shorter) >= SHORTEST else literal
