"""The words flightcheck writes into Slurm's Reason. Pure.

`flightcheck: no-go gpu-count: 7 of 8 GPUs visible (missing 0000:b3:00.0) [job 4711]`
"""

import re
from collections.abc import Sequence

import msgspec

PREFIX = "flightcheck: "
MAX_BYTES = 240
"""Slurm's own limit is far higher, but sinfo, squeue and mail subjects cut long lines."""
_PARTS = re.compile(
    r"^flightcheck: (?P<verdict>no-go|degraded|unknown) (?P<check>[a-z0-9][a-z0-9-]*): "
)
_TAIL = re.compile(r" \[(?:job (?P<job>\d{1,18}))?(?:, )?(?P<replace>replace)?\](?= : |$)")


class ReasonParts(msgspec.Struct, frozen=True):
    """One of our reasons taken apart; `check` is None where somebody shortened it by hand."""

    check: str | None
    job_id: int | None
    replace: bool
    """The hardware has to be replaced: a resume without that would only drain again."""


def is_ours(reason: str | None) -> bool:
    """Whether flightcheck wrote `reason`, also where Slurm appended ` : text` to it (23.02+)."""
    return reason is not None and reason.startswith(PREFIX)


def drain_reason(
    findings: Sequence[tuple[str, str]],
    job_id: int | None = None,
    *,
    verdict: str = "no-go",
    replace: bool = False,
) -> str:
    """The reason for `findings`: (check, message) pairs, worst first.

    At most MAX_BYTES long: the message is cut, never the check, the count or the job.
    """
    check, message = findings[0] if findings else ("unknown", "no finding was given")
    more = f" (+{len(findings) - 1} more)" if len(findings) > 1 else ""
    marks = ", ".join([f"job {job_id}"] * (job_id is not None) + ["replace"] * replace)
    tail = more + (f" [{marks}]" if marks else "")
    head = f"{PREFIX}{_clean(verdict)} {_clean(check)}: "
    room = MAX_BYTES - len(tail.encode())
    return _cut(_cut(head, 120) + _clean(message), room) + tail


def as_reason(text: str, job_id: int | None = None) -> str:
    """`text` made fit for Slurm: our prefix, one bounded line, no quotes, the job at its end."""
    body = (
        _clean(text).removeprefix(PREFIX.strip()).strip() or "no-go unknown: no finding was given"
    )
    named = _TAIL.search(body)
    tail = f" [job {job_id}]" if job_id is not None and named is None else ""
    if named is not None and named.end() == len(body):
        body, tail = body[: named.start()], named.group()
    return _cut(PREFIX + body, MAX_BYTES - len(tail.encode())) + tail


def take_apart(reason: str) -> ReasonParts:
    """Check, job and class of one of our reasons."""
    parts, tail = _PARTS.match(reason), _TAIL.search(reason)
    job = tail.group("job") if tail else None
    return ReasonParts(
        check=parts.group("check") if parts else None,
        job_id=int(job) if job else None,
        replace=bool(tail and tail.group("replace")),
    )


def _clean(text: str) -> str:
    """One line of printable characters without quotes, which Slurm and shells would eat.

    An escape sequence goes as a whole, so that no `[31m` is left of it; double spaces go too.
    """
    text = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)?", "", text[:4096])
    kept = (char if char.isprintable() and char not in "\"'`\\" else " " for char in text)
    return " ".join("".join(kept).split())


def _cut(text: str, size: int) -> str:
    """`text` in at most `size` bytes, never half a character, with an ellipsis where cut."""
    data = text.encode()
    if len(data) <= size:
        return text
    return data[: max(size - 3, 0)].decode("utf-8", "ignore").rstrip() + "…"
