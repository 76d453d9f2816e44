"""For checks of many subjects of which some could not be measured."""

from collections.abc import Iterator

from healthcheck.model import Finding, Unmeasured, warn


def with_unmeasured(findings: list[Finding], unknown: list[str]) -> Iterator[Finding]:
    """The findings, and what is unknown besides.

    Raises Unmeasured where nothing was found: the unknown part must not look healthy. Beside
    findings it is told as a warning: raising would lose them.
    """
    if unknown and not findings:
        raise Unmeasured("; ".join(unknown))
    yield from findings
    if unknown:
        yield warn("node", f"not measured besides: {'; '.join(unknown)}", measured="unknown")
