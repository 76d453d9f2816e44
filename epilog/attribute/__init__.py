"""Why a job failed and who began it: failures of distributed training, step by step. Pure.

The rank that prints is usually the victim, so nothing here trusts who printed first. Each step is
one file and a pure function; the first that can answer ends the search, and every step's words
are kept.
"""

from collections.abc import Callable, Mapping, Sequence

from epilog.attribute import (
    exit_codes,
    leftovers,
    local_nan,
    node_facts,
    own_cause,
    peers,
    scheduler,
    settle,
    story,
    timeouts,
)
from epilog.attribute.case import Case, Claim, Step
from epilog.attribute.read import read_case
from epilog.model import Attribution, Evidence, JobFacts, RankPlace, Role, Root, TaskExit, Work

STEPS: tuple[tuple[str, Callable[[Case], Step]], ...] = (
    ("1 scheduler", scheduler.step),
    ("2 facts of the nodes", node_facts.strong),
    ("3 local NaN", local_nan.step),
    ("3 a cause of its own", own_cause.step),
    ("3 NaN everywhere", local_nan.anywhere),
    ("3 lesser facts of the nodes", node_facts.weak),
    ("3 errors in general words", leftovers.lesser),
    ("5 votes of the network", peers.network),
    ("4 time-outs", timeouts.step),
    ("5 meeting point", peers.rendezvous),
    ("5 lost peers", peers.departed),
    ("exit codes", exit_codes.step),
    ("symptoms", leftovers.symptoms),
    ("nothing", leftovers.nothing),
)
MOST_EVIDENCE = 24


def attribute(
    facts: JobFacts,
    evidence: Sequence[Evidence],
    works: Sequence[Work] = (),
    exits: Sequence[TaskExit] = (),
    places: Sequence[RankPlace] = (),
    restarts: Mapping[str, int] | None = None,
    context: Sequence[Evidence] = (),
) -> Attribution:
    """What is concluded of a job.

    `evidence`, `works`, `exits` and `places` as scanned from its logs, with the facts of its
    nodes among the evidence (`fact=True`). `restarts`: the line of the last restart per file.
    `context`: lines that healthy jobs print as well.
    """
    case, said = read_case(facts, evidence, works, exits, places, restarts, context)
    words = [f"0 last attempt: {said}"]
    claim = _search(case, words)
    claim = settle.located(case, node_facts.supporting(case, claim))
    words.append(f"rank to node: {settle.how_located(case, claim)}")
    words.append(f"7 spread: {settle.spread(case, claim)}")
    drain, why = settle.drain_of(case, claim)
    words.append(f"8 drain: {drain.value}: {why}")
    confidence = settle.confidence_of(case, claim)
    return Attribution(
        klass=claim.klass,
        confidence=confidence,
        root=Root(claim.ranks, claim.nodes, claim.gpus),
        drain=drain,
        message=story.message(claim, confidence),
        evidence=_shown(case, claim),
        chain=story.chain(case, claim),
        steps=tuple(words),
    )


def _search(case: Case, words: list[str]) -> Claim:
    for name, step in STEPS:
        result = step(case)
        words.append(f"{name}: {result.said}")
        if result.claim is not None:
            return result.claim
    raise AssertionError("the last step always answers")


def _shown(case: Case, claim: Claim) -> tuple[Evidence, ...]:
    """The root's lines first, then what followed, each kind a few times."""
    shown = list(claim.evidence[: MOST_EVIDENCE // 2])
    held = {id(e) for e in shown}
    seen: dict[tuple[str, Role], int] = {}
    for e in sorted(case.evidence, key=lambda e: (e.file, e.line)):
        kind = (e.klass, e.role)
        if id(e) not in held and seen.get(kind, 0) < 3 and len(shown) < MOST_EVIDENCE:
            seen[kind] = seen.get(kind, 0) + 1
            shown.append(e)
    return tuple(shown)


__all__ = ["STEPS", "attribute"]
