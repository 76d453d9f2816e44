"""Step 3, second part: a rank that died of a cause of its own."""

from collections.abc import Sequence

import msgspec

from epilog.attribute import desync, exceptions
from epilog.attribute.case import Case, Claim, Step, hosts_of, ranks_of, told
from epilog.attribute.order import earliest
from epilog.classes import class_of
from epilog.model import Evidence, Role

_NOT_HERE = frozenset({"user/nan"})
SIGKILL = "unknown/sigkill"
HOST_OOM = "user/host-oom"
TIMEOUT = "unknown/nccl-timeout"
SEGFAULT = "user/segfault"
LOST = ("unknown/peer-died", "network/ib-retry")
_HANDLERS = ("ompi-signal", "ucx-signal", "absl-signal", "faulthandler")
CLEARLY_EARLIER_S = 1.0
SHOWN = 32


def step(case: Case) -> Step:
    """The cause with the smallest weight, unless another rank's came clearly earlier."""
    candidates: dict[str, list[Evidence]] = {}
    for e in case.of(Role.ROOT):
        if not e.klass.startswith("scheduler/") and e.klass not in _NOT_HERE:
            candidates.setdefault(e.klass, []).append(e)
    if SEGFAULT in candidates:
        own = [e for e in candidates[SEGFAULT] if not _after_a_loss(case, e)]
        candidates[SEGFAULT] = own
        if not own:
            del candidates[SEGFAULT]
    if SIGKILL in candidates and _is_teardown(case, candidates[SIGKILL]):
        del candidates[SIGKILL]
    if not candidates:
        return Step("no rank tells a cause of its own")
    klass = _choose(candidates)
    claim = _claim(case, klass, candidates[klass])
    others = sorted(set(candidates) - {klass})
    besides = f"; besides: {', '.join(others)}" if others else ""
    return Step(claim.why + besides, claim)


def _choose(candidates: dict[str, list[Evidence]]) -> str:
    best = min(candidates, key=lambda klass: class_of(klass).weight)
    if best == desync.DESYNC:
        named = set(desync.culprits(candidates[best]).ranks)
        for other in sorted(candidates, key=lambda klass: class_of(klass).weight):
            # Who is missed because he died has not taken another turn.
            if other != best and named & set(ranks_of(candidates[other])):
                return other
    return _earlier(best, candidates)


def _earlier(best: str, candidates: dict[str, list[Evidence]]) -> str:
    """Time decides between causes of users' programs on different ranks, and nowhere else."""
    if not best.startswith("user/"):
        return best
    start = _first(candidates[best])
    for other, seen in candidates.items():
        if other == best or not other.startswith("user/") or other == desync.DESYNC:
            continue
        at = _first(seen)
        if start is None or at is None or at >= start - CLEARLY_EARLIER_S:
            continue
        if not set(ranks_of(seen)) & set(ranks_of(candidates[best])):
            return other
    return best


def _first(seen: Sequence[Evidence]) -> float | None:
    times = [e.at for e in seen]
    return None if None in times else min(t for t in times if t is not None)


def _claim(case: Case, klass: str, seen: list[Evidence]) -> Claim:
    if klass == desync.DESYNC:
        return desync.culprits(seen)
    if klass == exceptions.EXCEPTION:
        return exceptions.odd_one(exceptions.fatal(case, seen))
    first = earliest(seen)
    ranks, nodes = ranks_of(first) or ranks_of(seen), hosts_of(first) or hosts_of(seen)
    if klass == HOST_OOM and not ranks:
        killed = [e for e in case.evidence if e.klass == SIGKILL and e.rank is not None]
        near = [e for e in killed if not nodes or e.host is None or e.host in nodes]
        ranks, nodes = ranks_of(near), nodes or hosts_of(near)
    says = class_of(klass).says
    where = told(ranks) if ranks else (f"node {', '.join(nodes[:4])}" if nodes else "the log")
    claim = Claim(klass, f"{where}: {says}", tuple(first[:SHOWN]), ranks, nodes)
    if klass == "infrastructure/fs-full":
        return msgspec.structs.replace(claim, why=f"{claim.why} ({_disk(seen)})")
    return claim


def _disk(seen: Sequence[Evidence]) -> str:
    return "the node's own disk" if any(is_local_disk(e) for e in seen) else "a shared file system"


def is_local_disk(e: Evidence) -> bool:
    """Whether the line names a path that is on the node itself on practically every cluster."""
    path = e.fields.get("path", "")
    local = ("/tmp/", "/var/", "/run/", "/local/", "/dev/", "/mnt/nvme", "/localscratch")  # noqa: S108
    return f"{path}/".startswith(local)


def _is_teardown(case: Case, killed: list[Evidence]) -> bool:
    """Signal 9 from the launcher or from Slurm, at the end of what began elsewhere."""
    if any(e.fields.get("signal") == "SIGKILL" for e in case.of(Role.CONSEQUENCE)):
        return True
    waited = [e for e in case.of(Role.SYMPTOM) if e.klass == TIMEOUT]
    by_slurm = [e for e in killed if not e.signature.startswith("torchrun")]
    if not waited or len(by_slurm) < len(killed):
        return False
    first = min(waited, key=lambda e: (e.at is None, e.at or 0.0, e.line))
    return all(_after(e, first) for e in by_slurm)


def _after_a_loss(case: Case, crash: Evidence) -> bool:
    """Whether others had lost a peer before this process crashed: then it crashed in its cleanup.

    Only handlers inside the process print at once; launchers tell of a crash much later.
    """
    if not crash.signature.startswith(_HANDLERS):
        return False
    lost = (e for e in case.evidence if e.klass in LOST and not e.signature.startswith("slurm"))
    return any((e.host, e.rank) != (crash.host, crash.rank) and _after(crash, e) for e in lost)


def _after(one: Evidence, other: Evidence) -> bool:
    if one.at is not None and other.at is not None:
        return one.at > other.at
    return one.file == other.file and one.line > other.line
