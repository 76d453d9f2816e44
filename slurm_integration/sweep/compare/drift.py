"""Versions that differ between nodes of one type. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from healthcheck.model import Severity
from slurm_integration.sweep.model import FleetFinding, NodeResult

MAX_OTHERS = 20
"""Values of a part beyond which the rest are counted only."""


def drifts(results: Sequence[NodeResult]) -> list[FleetFinding]:
    """One finding for each other version of a part: which nodes have it, and what most have."""
    return list(_drifts(results))


def _drifts(results: Sequence[NodeResult]) -> Iterator[FleetFinding]:
    # profile → part → node → what it has of it
    table: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for result in results:
        for part, versions in (result.facts or {}).get("versions", {}).items():
            parts = table.setdefault(result.profile, {})
            parts.setdefault(part, {})[result.node] = tuple(versions)
    for profile, parts in table.items():
        for part, nodes in parts.items():
            yield from _part(profile, part, nodes)


def _part(profile: str, part: str, nodes: dict[str, tuple[str, ...]]) -> Iterator[FleetFinding]:
    counts = Counter(nodes.values())
    if len(counts) < 2:
        return
    usual, often = counts.most_common(1)[0]
    tied = [versions for versions, count in counts.items() if count == often]
    expected = "" if len(tied) > 1 else _words(usual)
    others = [pair for pair in counts.most_common() if not expected or pair[0] != usual]
    for versions, count in others[:MAX_OTHERS]:
        has = tuple(name for name, found in nodes.items() if found == versions)
        most = (
            f"{often} of {len(nodes)} have {expected}"
            if expected
            else f"{len(counts)} variants among {len(nodes)} nodes, none in the majority"
        )
        mixed = " side by side" if len(versions) > 1 else ""
        yield FleetFinding(
            "drift",
            Severity.WARN,
            part,
            profile,
            has,
            f"{part} {_words(versions)}{mixed} on {count} {profile} node{'s' * (count > 1)}; "
            f"{most}",
            measured=_words(versions),
            expected=expected or None,
        )


def _words(versions: tuple[str, ...]) -> str:
    return " and ".join(versions)
