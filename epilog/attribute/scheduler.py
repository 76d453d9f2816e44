"""Step 1: a reason of the scheduler's own, before any error, ends the search."""

import msgspec

from epilog.attribute.case import Case, Claim, Step, hosts_of, ranks_of, told
from epilog.model import Evidence, Role

CANCELLED = "scheduler/cancelled"
NODE_FAILURE = "scheduler/node-failure"
EXCEPTION = "user/python-exception"
INSTEAD = (
    "More time will not help: find out what it waits for (py-spy dump on a silent rank, PyTorch's "
    "flight recorder, a time-out of init_process_group that is shorter than the job)."
)
HUNG, FIRST = "silence", "silence-first"
_GAVE_UP = ("unknown/nccl-timeout", "unknown/heartbeat", "network/ib-retry")
PROLOG_EXIT = 4022
PROLOG_SIGNAL = 54


def step(case: Case) -> Step:
    """The scheduler's claim, or why its words are only the teardown."""
    if case.facts.exit_code == PROLOG_EXIT or case.facts.exit_signal == PROLOG_SIGNAL:
        why = "Slurm's exit code says that the prolog failed (4022, or 0:54)"
        seen = tuple(e for e in case.evidence if e.klass == "infrastructure/prolog")
        return Step(why, Claim("infrastructure/prolog", why, seen, nodes=hosts_of(seen)))
    reasons = [e for e in case.category("scheduler") if e.role is Role.ROOT]
    named = [e for e in reasons if e.klass != CANCELLED]
    if not reasons:
        return _by_the_clock(case)
    chosen = named or reasons
    # Where Slurm's state and a line of the log say the same, the line tells the order.
    first = min(chosen, key=lambda e: (e.fact, *_when(e)))
    cause = _earlier_cause(case, first)
    if cause is not None:
        return Step(
            f"the scheduler's words ({first.klass}) came after an error of "
            f"{cause.klass}: they are the teardown"
        )
    seen = tuple(e for e in chosen if e.klass == first.klass)
    why = f"the scheduler gave its reason before any error: {first.text.strip()[:120]}"
    # A line about another node's failure is printed by one that lives.
    named_in = tuple(e for e in seen if "reporter" not in e.fields)
    return _hung(case, Claim(first.klass, why, seen, nodes=hosts_of(named_in)))


def _hung(case: Case, claim: Claim) -> Step:
    """What the silence before the end adds: a job that hung had not run out of time."""
    silent = next((e for e in case.context if e.signature == HUNG), None)
    if silent is None:
        return Step(claim.why, claim)
    first = tuple(e for e in case.context if e.signature == FIRST)
    note = f"It seems to have hung: {silent.text}"
    if first:
        note += f"; {told(ranks_of(first))} fell silent first"
    why = f"{claim.why}; {note[0].lower()}{note[1:]}"
    changes = msgspec.structs.replace(claim, why=why, note=f"{note}. {INSTEAD}")
    if not first:
        return Step(why, changes)
    seen = (*claim.evidence, silent, *first)
    nodes = hosts_of(first)
    return Step(
        why, msgspec.structs.replace(changes, evidence=seen, ranks=ranks_of(first), nodes=nodes)
    )


def _by_the_clock(case: Case) -> Step:
    facts = case.facts
    if facts.time_limit_at is None or facts.ended_at is None:
        return Step("no reason of the scheduler's own")
    if facts.ended_at < facts.time_limit_at - 1 or facts.ended_at > facts.time_limit_at + 300:
        return Step("no reason of the scheduler's own, and the time limit was not reached")
    if any(e.role is Role.ROOT for e in case.evidence):
        return Step("the time limit was reached, but an error came before it")
    why = "the job ended at its time limit and no error came before"
    return Step(why, Claim("scheduler/time-limit", why, confidence=0.8))


def _earlier_cause(case: Case, reason: Evidence) -> Evidence | None:
    """An error that explains the job's end better than the scheduler's words do."""
    for e in case.evidence:
        if e.role is not Role.ROOT or e.klass.startswith("scheduler/"):
            continue
        before = _before(e, reason)
        if reason.klass == CANCELLED and not reason.fact:
            # srun and slurmstepd say CANCELLED too when a task has failed.
            if before is not False or _a_step(reason):
                return e
        elif e.klass == EXCEPTION:
            if before and _ended_somebody(case, reason):
                return e
        elif before is not False:
            return e
    if reason.klass != NODE_FAILURE:
        waited = (e for e in case.of(Role.SYMPTOM) if e.klass in _GAVE_UP)
        found = next((e for e in waited if _before(e, reason)), None)
        if found is not None:
            return found
    if reason.klass == CANCELLED:
        return next((e for e in case.of(Role.SYMPTOM) if _ended_badly(e, reason)), None)
    return None


def _ended_somebody(case: Case, reason: Evidence) -> bool:
    """Whether a task ended or a peer was lost before: programs also print what they survive."""
    return any(
        _before(e, reason)
        for e in case.of(Role.SYMPTOM, Role.CONSEQUENCE)
        if "exitcode" in e.fields or e.klass in (*_GAVE_UP, "unknown/peer-died", "unknown/hang")
    )


def _a_step(reason: Evidence) -> bool:
    return "STEP" in reason.text


def _ended_badly(e: Evidence, reason: Evidence) -> bool:
    """A symptom (a time-out, a lost peer) that stood there before a plain CANCELLED."""
    return not e.klass.startswith("scheduler/") and _before(e, reason) is True


def _when(e: Evidence) -> tuple[float, str, int]:
    return (e.at if e.at is not None else float("inf"), e.file, e.line)


def _before(one: Evidence, other: Evidence) -> bool | None:
    """Whether `one` came before `other`; None where nothing tells."""
    if one.file == other.file:
        return one.line < other.line
    if one.fact != other.fact:
        return None  # a log's clock may be local time
    if one.at is not None and other.at is not None:
        return one.at < other.at
    return None
