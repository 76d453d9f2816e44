"""From what the supervisor heard to how the test ended, and which rank the evidence points at."""

from collections.abc import Sequence

import msgspec

from healthcheck.allreduce import blame
from healthcheck.allreduce.busbw import bandwidth
from healthcheck.allreduce.model import (
    AllreduceEnd,
    AllreduceRank,
    AllreduceResult,
    BusBandwidth,
    LoadSample,
    Plan,
    RankCompute,
    Suspect,
)
from healthcheck.allreduce.nccl_log import complaints, parse_nccl_log
from healthcheck.allreduce.told import Told
from healthcheck.allreduce.wrong import wrong_bits

MAX_REASON = 500


class Conclusion(msgspec.Struct, frozen=True):
    """How it ended and why."""

    end: AllreduceEnd
    reason: str | None = None
    suspects: tuple[Suspect, ...] = ()
    cause: str | None = None


def assess(told: Told, plan: Plan, samples: Sequence[LoadSample] = ()) -> AllreduceResult:
    """The result of one run. Pure."""
    wrong = wrong_bits(told)
    conclusion = _conclude(told, plan, bool(wrong))
    suspects = conclusion.suspects
    if conclusion.end is AllreduceEnd.CORRUPT:
        suspects = blame.corruption(wrong, told, plan) or suspects
    log = parse_nccl_log(told.output)
    torch = told.first("torch")
    return AllreduceResult(
        end=conclusion.end,
        reason=conclusion.reason and conclusion.reason[:MAX_REASON],
        cause=conclusion.cause,
        phase=None if wrong or conclusion.end is AllreduceEnd.OK else _phase(told, suspects),
        backend=plan.backend,
        depth=plan.depth,
        ranks=plan.ranks,
        seed=plan.seed,
        started_at=told.started_at,
        duration_s=told.duration_s,
        torch=torch.get("version"),
        cuda=torch.get("cuda"),
        nccl=log.version,
        members=_members(told, plan),
        nodes=tuple(m["node"] for m in sorted(told.of("peer"), key=lambda m: m["of"])),
        absent=tuple(told.first("absent").get("ranks", ())),
        suspects=suspects,
        wrong=wrong,
        cases=_finished_cases(told, plan),
        skipped=tuple(dict.fromkeys(f"{m['case']}: {m['reason']}" for m in told.of("skipped"))),
        bandwidth=_bandwidth(told, plan),
        compute=tuple(
            RankCompute(m["rank"], m["dtype"], m["size"], m["seconds"]) for m in told.of("matmul")
        ),
        samples=tuple(samples),
        log=complaints(told.output),
    )


def _conclude(told: Told, plan: Plan, wrong: bool) -> Conclusion:
    """Wrong bits stand whatever came after them. Then: who died, who hangs, who never started."""
    if wrong:
        return Conclusion(AllreduceEnd.CORRUPT, "wrong bits, see the findings")
    astray = blame.astray(told)
    if astray:
        words = "; ".join(f"rank {s.rank} {s.why}" for s in astray)
        return Conclusion(AllreduceEnd.CORRUPT, f"the ranks no longer agree: {words}", astray)
    dead = blame.dead(told, plan)
    if dead:
        words = "; ".join(f"rank {s.rank} {s.why}" for s in dead)
        return Conclusion(AllreduceEnd.DIED, words, dead)
    if told.ended == "end":
        return _complete(told, plan)
    starts = [m for m in told.of("error") if m.get("kind") == "start"]
    if starts and not blame.silent(told):
        return _not_started(starts)
    if not told.seen or all(seen.silent_s is None for seen in told.seen):
        return _never_forked(told)
    if _never_met(told):
        return Conclusion(
            AllreduceEnd.COULD_NOT_START,
            f"the ranks did not meet within {told.duration_s:.1f} s",
            cause="rendezvous",
        )
    late = told.ended == "deadline" and not blame.silent(told) and not blame.timed_out(told)
    if late and _moving(told):
        return Conclusion(
            AllreduceEnd.UNFINISHED,
            f"time was up after {told.duration_s:.1f} s while every rank still made progress",
        )
    suspects = blame.hanging(told)
    lost = blame.lost(told)
    if not suspects and lost is not None:
        return Conclusion(AllreduceEnd.DIED, f"the other ranks went away: {lost}")
    words = "; ".join(f"rank {s.rank} {s.why}" for s in suspects) or (
        "every rank entered the collective and none left it: the path between them"
        if plan.ranks == plan.local
        else "every rank of this node entered the collective and none left it: another node, or "
        "the path to it"
    )
    return Conclusion(AllreduceEnd.HUNG, words, suspects)


def _complete(told: Told, plan: Plan) -> Conclusion:
    """The child ended by itself; it is only well where every rank told that it was done."""
    done = {message["rank"] for message in told.of("done")}
    missing = sorted(set(range(plan.first, plan.first + plan.local)) - done)
    if missing:
        return Conclusion(AllreduceEnd.UNFINISHED, f"ranks {missing} ended without a result")
    return Conclusion(AllreduceEnd.OK)


def _not_started(starts: list[dict[str, object]]) -> Conclusion:
    # Whoever fails by itself explains the others, who only miss it.
    order = ("no-torch", "interpreter", "no-nccl", "no-cuda", "connect", "rendezvous", "absent")
    first = min(starts, key=lambda m: order.index(c) if (c := m.get("cause")) in order else 99)
    cause, rank = str(first.get("cause")), first.get("rank")
    where = f"rank {rank}: " if rank is not None else ""
    suspects = tuple(
        Suspect(int(str(m["rank"])), str(m.get("reason"))[:200])
        for m in starts
        if m.get("cause") == cause and cause == "no-cuda" and m.get("rank") is not None
    )
    reason = f"{where}{first.get('reason')}"
    return Conclusion(AllreduceEnd.COULD_NOT_START, reason, suspects, cause)


def _never_forked(told: Told) -> Conclusion:
    """The child went away, or hung, before there was a rank."""
    last = complaints(told.output)
    if not told.of("hello"):
        reason = "the interpreter did not come up"
    elif not told.of("torch"):
        reason = f"torch was not imported within {told.duration_s:.1f} s"
    else:
        reason = "no rank came up"
    if last:
        reason = f"{reason}: {last[-1]}"
    cause = "interpreter" if not told.of("hello") else "no-torch"
    if told.of("torch"):
        cause = "no-ranks"
    return Conclusion(AllreduceEnd.COULD_NOT_START, reason, cause=cause)


def _never_met(told: Told) -> bool:
    """Whether this node's ranks, all of them alive, still look for the others: a name server or a
    host that gives no answer is no evidence against the node that asks.
    """
    looking = all(seen.phase == "join" and not seen.entered for seen in told.seen)
    return looking and not blame.silent(told)


def _moving(told: Told) -> bool:
    """Whether the ranks were all about equally far: nobody waits for anybody."""
    counts = [seen.entered for seen in told.seen]
    return max(counts) - min(counts) <= 1


def _phase(told: Told, suspects: Sequence[Suspect]) -> str | None:
    """Where the suspect was, else where most ranks were."""
    accused = {suspect.rank for suspect in suspects}
    phases = [s.phase for s in told.seen if s.rank in accused] or [s.phase for s in told.seen]
    return max(set(phases), key=phases.count) or None if phases else None


def _members(told: Told, plan: Plan) -> tuple[AllreduceRank, ...]:
    exits = {m["rank"]: m.get("code") for m in told.of("exit")}
    errors = {m["rank"]: str(m.get("reason"))[:300] for m in told.of("error") if "rank" in m}
    devices = {m["rank"]: m for m in told.of("device")}
    members = []
    for seen in told.seen:
        local = seen.rank - plan.first
        place = plan.gpus[local] if local < len(plan.gpus) else None
        device = devices.get(seen.rank, {})
        members.append(
            AllreduceRank(
                rank=seen.rank,
                node=plan.node,
                gpu_index=place.index if place else None,
                uuid=(place.uuid if place else None) or device.get("uuid"),
                bus_id=place.bus_id if place else None,
                gpu=(place.name if place else None) or device.get("name"),
                pid=seen.pid,
                phase=seen.phase,
                call=seen.call,
                entered=seen.entered,
                left=seen.left,
                state=seen.state,
                silent_s=seen.silent_s,
                exit_code=exits.get(seen.rank),
                error=errors.get(seen.rank),
            )
        )
    return tuple(members)


def _finished_cases(told: Told, plan: Plan) -> tuple[str, ...]:
    """The cases that every rank of this node told of."""
    ranks: dict[str, set[int]] = {}
    for message in told.of("case"):
        if not message.get("extra"):
            ranks.setdefault(message["case"], set()).add(message["rank"])
    return tuple(case for case, those in ranks.items() if len(those) == plan.local)


def _bandwidth(told: Told, plan: Plan) -> tuple[BusBandwidth, ...]:
    sizes: dict[int, list[dict[str, object]]] = {}
    for message in told.of("times"):
        sizes.setdefault(message["bytes"], []).append(message)
    points = [
        bandwidth(
            size,
            str(messages[0]["dtype"]),
            plan.ranks,
            {int(str(m["rank"])): m["times"] for m in messages},  # type: ignore[misc]
            {int(str(m["rank"])): float(str(m["total"])) for m in messages},
            plan.backend,
        )
        for size, messages in sizes.items()
        if len(messages) == plan.local
    ]
    return tuple(point for point in points if point is not None)
