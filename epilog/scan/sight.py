"""One matched line → what its signatures say (Sight), before anything is counted or kept."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from epilog.scan.prefix import Prefix, PrefixParser
from epilog.scan.text import AdviceCutter, segments
from epilog.signatures import Catalogue, Signature, fields_of


class Sight(msgspec.Struct):
    """A signature that matched, on which line, and what was taken from it.

    `says` is false where a signature of higher priority speaks for the line: its record still
    counts, its evidence does not.
    """

    signature: Signature
    line: int
    text: str
    prefix: Prefix
    fields: dict[str, str]
    says: bool = True

    @property
    def rank(self) -> int | None:
        """The global rank that the line is about."""
        return number(self.fields.get("rank"), self.prefix.best_rank)

    @property
    def local_rank(self) -> int | None:
        """The rank on its node."""
        return number(self.fields.get("local_rank"), self.prefix.local_rank)

    @property
    def label(self) -> int | None:
        """The one Slurm task that the line is about."""
        return number(self.fields.get("tasks"), self.prefix.label)

    @property
    def host(self) -> str | None:
        """The one host that the line is about."""
        host = self.fields.get("host", self.prefix.host)
        return host if host is None or not set(host) & set("[],") else None


class Eye:
    """Confirms and reads matched lines with Python's own expressions."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._advice = AdviceCutter(catalogue)
        self._compiled: dict[str, re.Pattern[str]] = {}

    def look(
        self,
        line: int,
        data: bytes,
        candidates: Iterable[Signature],
        parser: PrefixParser,
        facts: dict[str, str] | None = None,
    ) -> list[Sight]:
        """What `candidates` find in a line. Where carriage returns divide it, each takes the
        last segment that it matches. `facts` are added to what an exception line says."""
        sights: list[Sight] = []
        waiting = list(candidates)
        for segment in reversed(segments(data)):
            if not waiting:
                break
            text = self._advice.cut(segment)
            found = [s for c in waiting if (s := self._match(c, line, text, parser))]
            if not found:
                continue
            _silence(found)
            sights += found
            seen = {sight.signature.id for sight in found}
            waiting = [c for c in waiting if c.id not in seen]
        if facts:
            for sight in sights:
                sight.fields |= facts
        return sights

    def _match(
        self, signature: Signature, line: int, text: str, parser: PrefixParser
    ) -> Sight | None:
        anchored = signature.pattern.startswith("^")
        if not anchored:
            match = self._regex(signature.pattern).search(text)
            if match is None:
                return None
            where, prefix = match.start(), None
        else:
            where, prefix = self._body(signature, text, parser)
            match = self._regex(signature.pattern).search(text[prefix.body :])
            if match is None:
                return None
        for pattern in signature.unless:
            if self._regex(pattern).search(text):
                return None
        prefix = parser.parse_at(text, where) if prefix is None else prefix
        return Sight(signature, line, text.strip(), prefix, fields_of(match))

    def _body(self, signature: Signature, text: str, parser: PrefixParser) -> tuple[int, Prefix]:
        """Where the body begins in which a `^` pattern is searched."""
        hints = [at for t in signature.triggers if (at := text.find(t)) >= 0]
        prefix = parser.parse_at(text, min(hints)) if hints else parser.parse(text)
        return prefix.body, prefix

    def _regex(self, pattern: str) -> re.Pattern[str]:
        compiled = self._compiled.get(pattern)
        if compiled is None:
            compiled = self._compiled[pattern] = re.compile(pattern)
        return compiled


def _silence(found: Sequence[Sight]) -> None:
    """Only the highest priority among the signatures that give evidence speaks."""
    speaking = [s for s in found if s.signature.evidence and s.signature.verdict_for(s.fields)]
    best = max((s.signature.priority for s in speaking), default=0)
    for sight in found:
        sight.says = sight in speaking and sight.signature.priority == best


def number(text: str | None, otherwise: int | None = None) -> int | None:
    """A whole number of at most 18 digits, or `otherwise`."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else otherwise
