"""Our own installation on this machine."""

from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_node, advice, wrong

SLOW_START_S = 0.5
"""Generous: it takes 0.03 s on a small machine, and a whole prolog wants to take 0.1 s."""


@about_node("two-installations")
def two_installations(facts: Facts) -> Iterator[Complaint]:
    """The hooks and the command line are one installation."""
    if len(facts.installations) < 2:
        return
    told = "; ".join(
        f"{one.prefix} ({one.version or 'version unknown'}, by {', '.join(one.seen_by)})"
        for one in facts.installations
    )
    yield wrong(
        facts.node, f"{len(facts.installations)} installations: {told}",
        "what you try by hand is not what Slurm runs, and they share one state folder",
        "keep one: uninstall the other, or let scripts and PATH name the same",
    )  # fmt: skip


@about_node("compiled")
def compiled(facts: Facts) -> Iterator[Complaint]:
    """Every module of ours has a current .pyc file."""
    python = facts.interpreter
    if python.uncompiled:
        yield advice(
            python.folder, f"{python.uncompiled} of {python.modules} modules have no current .pyc",
            "a prolog that compiles them takes five times as long",
            f"{python.path} -m compileall -q {python.folder}",
        )  # fmt: skip


@about_node("interpreter")
def interpreter(facts: Facts) -> Iterator[Complaint]:
    """Our Python starts, and quickly."""
    python = facts.interpreter
    if python.problem:
        yield wrong(
            python.path, python.problem, "no hook of ours runs", "install flightcheck again"
        )  # fmt: skip
    elif python.start_s is not None and python.start_s > SLOW_START_S:
        yield advice(
            python.path, f"the interpreter takes {python.start_s:.2f} s to start, "
            f"expected below {SLOW_START_S:g} s",
            "every job waits for it: a network file system, most often",
            "install flightcheck on the node's own disk, /opt/flightcheck",
        )  # fmt: skip
