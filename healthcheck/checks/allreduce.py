"""all_reduce between the GPUs of a node: every bit right, and nobody stuck."""

from collections.abc import Iterator

from healthcheck.checks._allreduce import NODE, flown, from_hardware, name, subject
from healthcheck.model import Action, Finding, Snapshot, Unmeasured, fail, warn
from healthcheck.model.allreduce import AllreduceEnd, AllreduceResult, WrongBits
from healthcheck.registry import NoLimits, check

_UNTRIED = ("no-torch", "no-nccl", "interpreter", "untrusted")
"""Causes that lie in an installation: nothing of the node was tried."""


@check(
    "allreduce-integrity",
    source="all_reduce over exact integers: any order of adding gives the same bits",
)
def allreduce_integrity(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """The GPUs add each other's numbers and every rank gets the right bits.

    What it means: all_reduce gives every rank the sum of all; one GPU, link or memory that flips
    a bit gives a wrong gradient to the whole job, and one that stops makes all of them wait.

    What we do: compare every element of every result with the value it must have; fail where bits
    are wrong, a rank hangs, or CUDA does not come up on a node that has GPUs. A missing torch
    or a time that was too short is unmeasured and never a failure.

    What to do: take the named GPU out and run `flightcheck allreduce --full`; have it replaced if
    it is found again. Wrong bits without a culprit: NVLink, NVSwitch, then host memory.
    """
    result = flown(node)
    if result.end is AllreduceEnd.COULD_NOT_START:
        yield from _not_started(result)
    elif result.end is AllreduceEnd.UNFINISHED:
        raise Unmeasured(result.reason or "the test did not end in time")
    elif result.end is AllreduceEnd.CORRUPT:
        yield from _corrupt(result)
    elif result.end is AllreduceEnd.HUNG:
        yield from _hung(result)
    elif result.end is AllreduceEnd.DIED:
        yield from _died(result)
    elif result.ranks > 1 and not result.cases:
        raise Unmeasured("the test ended well without having compared anything")
    for path in result.paths:
        if path.end is not AllreduceEnd.OK:
            yield warn(
                NODE, f"path {path.path}: {path.end.value}: {path.reason or ''}".rstrip(": ")
            )
        elif not path.confirmed:
            yield warn(NODE, f"path {path.path} was not tested: {path.evidence}")


def _not_started(result: AllreduceResult) -> Iterator[Finding]:
    reason = f"the all_reduce test could not start: {result.reason}"
    if result.cause == "no-cuda":
        accused = [s.rank for s in result.suspects]
        everywhere = len(accused) != 1
        yield fail(
            NODE if everywhere else subject(result, accused[0]),
            f"CUDA does not come up: {result.reason}; expected a GPU node whose jobs can use it",
            measured="no CUDA",
            expected="CUDA",
            action=Action.DRAIN,
        )
    elif result.cause not in _UNTRIED and from_hardware(result.reason, *result.log):
        yield fail(NODE, reason, measured=result.cause, action=Action.DRAIN)
    else:
        raise Unmeasured("; ".join((reason, *result.log[-2:])))


def _corrupt(result: AllreduceResult) -> Iterator[Finding]:
    """One finding a suspect, with the plainest of its wrong comparisons."""
    if not result.wrong and not result.suspects:
        yield fail(NODE, f"wrong: {result.reason}", action=Action.DRAIN)
        return
    only_repeats = result.wrong and all(bits.where == "repeat" for bits in result.wrong)
    if only_repeats:
        for bits in result.wrong:
            yield warn(
                subject(result, bits.rank),
                f"{name(result, bits.rank)}: the same sum of the same numbers twice gave different "
                f"bits ({bits.detail})",
            )
        return
    for suspect in result.suspects:
        own = [bits for bits in result.wrong if bits.rank == suspect.rank]
        plainest = next(iter([*own, *result.wrong]), None)
        proven = "own data" in suspect.why or "product" in suspect.why
        yield fail(
            subject(result, suspect.rank),
            f"{name(result, suspect.rank)} {suspect.why}"
            + (f": {told(plainest)}" if plainest else ""),
            measured=f"{plainest.count} wrong" if plainest else None,
            expected="0 wrong" if plainest else None,
            action=Action.REPLACE if proven and result.backend == "nccl" else Action.DRAIN,
        )
    if not result.suspects:
        first = result.wrong[0]
        seen = len({bits.rank for bits in result.wrong})
        yield fail(
            NODE,
            f"wrong bits at {seen} of {result.ranks} ranks, and the evidence points at no single "
            f"one: {name(result, first.rank)}: {told(first)}",
            measured=f"{first.count} wrong",
            expected="0 wrong",
            action=Action.DRAIN,
        )


def told(bits: WrongBits) -> str:
    """`sum float32 131072: 1 element wrong, the first at 700, got 0x… expected 0x…, XOR 0x…`."""
    if bits.xor is None:
        return f"{bits.op} {bits.dtype} {bits.case}: {bits.detail}"
    digits = bits.bits // 4
    words = [f"{n} 0x{value or 0:0{digits}x}" for n, value in
             (("got", bits.got), ("expected", bits.expected), ("XOR", bits.xor))]  # fmt: skip
    plural = "element" if bits.count == 1 else "elements"
    nans = f", {bits.not_finite} of them not finite" if bits.not_finite else ""
    return (
        f"{bits.case}: {bits.count} {plural} wrong{nans}, the first at {bits.first_index}: "
        + ", ".join(words)
    )


def _hung(result: AllreduceResult) -> Iterator[Finding]:
    phase = f" in {result.phase!r}" if result.phase else ""
    if not result.suspects:
        yield fail(
            NODE,
            f"all_reduce hangs{phase}: {result.reason}",
            measured="hung",
            action=Action.DRAIN,
        )
    for suspect in result.suspects:
        yield fail(
            subject(result, suspect.rank),
            f"all_reduce hangs{phase}: {name(result, suspect.rank)} {suspect.why}",
            measured="hung",
            action=Action.DRAIN,
        )


def _died(result: AllreduceResult) -> Iterator[Finding]:
    """A death is evidence where the hardware is named; anything may kill a process."""
    if not result.suspects:
        raise Unmeasured(f"the test broke off: {result.reason}")
    for suspect in result.suspects:
        error = result.member(suspect.rank).error
        proven = from_hardware(suspect.why, error, *result.log)
        yield (fail if proven else warn)(
            subject(result, suspect.rank),
            f"{name(result, suspect.rank)} {suspect.why}",
            measured="died",
            action=Action.DRAIN if proven else Action.NONE,
        )
