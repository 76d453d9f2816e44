"""Which rank does the evidence point at? Pure; an empty answer means that it points at none."""

import signal
from collections import Counter
from collections.abc import Sequence

from healthcheck.allreduce.model import Plan, Suspect, WrongBits
from healthcheck.allreduce.told import Seen, Told

SILENT_S = 2.0
MAX_ROUNDS = 64
_SECOND_HAND = (
    "timed out", "timeout", "connection closed", "connection reset", "broken pipe",
    "connection refused", "remote process exited", "did not come", "socket", "peer",
)  # fmt: skip
"""In an error's words: this rank only misses another one."""
_STATES = {"T": "is stopped", "t": "is being traced", "D": "sleeps in the kernel",
           "Z": "is a zombie", "gone": "is gone"}  # fmt: skip


def corruption(wrong: Sequence[WrongBits], told: Told, plan: Plan) -> tuple[Suspect, ...]:
    """Whose data, or whose reading of them, is wrong.

    A rank's own contribution before it was sent, or its own matrix product; else the minority
    that gets wrong results where others get right ones; else the sender that `_sender` finds.
    """
    suspects: dict[int, str] = {}
    for bits in wrong:
        if bits.where == "contribution":
            suspects.setdefault(bits.rank, "has wrong bits in its own data before they are sent")
        elif bits.op == "matmul":
            suspects.setdefault(bits.rank, "computes a matrix product wrong")
    receivers = {bits.rank for bits in wrong if bits.where in ("result", "digest", "repeat")}
    if not suspects and 0 < len(receivers) <= plan.ranks / 2:
        suspects = dict.fromkeys(receivers, "gets wrong results where the other ranks do not")
    suspects = suspects or _sender(wrong, plan)
    for suspect in astray(told):
        suspects.setdefault(suspect.rank, suspect.why)
    return tuple(Suspect(rank, why) for rank, why in sorted(suspects.items()))


def _sender(wrong: Sequence[WrongBits], plan: Plan) -> dict[int, str]:
    """Whose data take harm on the way, from the rounds with inverted bits.

    The harm adds the same to the sum in every round, but for the one in which the bits it falls
    on are inverted. Harm of another kind (another place each time) points at nobody.
    """
    harm = {
        (bits.inverted, bits.rank): (bits.first_index, _difference(bits))
        for bits in wrong
        if bits.where == "inverted"
    }
    plain = {rank: what for (inverted, rank), what in harm.items() if inverted == -1}
    if not plain:
        return {}
    senders = [
        sender
        for sender in range(min(plan.ranks, MAX_ROUNDS))
        if 2 * sum(harm.get((sender, rank)) != what for rank, what in plain.items()) > len(plain)
    ]
    if len(senders) > plan.ranks / 2:
        return {}
    return dict.fromkeys(senders, "sends data that arrive wrong at every rank")


def _difference(bits: WrongBits) -> int:
    return ((bits.got or 0) - (bits.expected or 0)) & 0xFFFFFFFF


def astray(told: Told) -> tuple[Suspect, ...]:
    """Ranks that did something else than the others: skipped a step, or sent another shape."""
    counts = next((m["counts"] for m in told.of("entered")), None)
    if counts is not None:
        usual = Counter(counts).most_common(1)[0][0]
        return tuple(
            Suspect(rank, f"made {count} collective calls where the others made {usual}")
            for rank, count in enumerate(counts)
            if count != usual
        )
    if told.ended == "end":
        return ()
    return _different_calls(told.seen)


def _different_calls(seen: Sequence[Seen]) -> tuple[Suspect, ...]:
    """Ranks in the same collective by number, with another operation, type or length."""
    if not seen:
        return ()
    number = Counter(one.entered for one in seen).most_common(1)[0][0]
    calls = Counter(one.call for one in seen if one.entered == number)
    if number and len(calls) > 1:
        usual, votes = calls.most_common(1)[0]
        if votes > 1 or len(seen) == 2:
            return tuple(
                Suspect(one.rank, f"sent {one.call!r} where the others sent {usual!r}")
                for one in seen
                if one.entered == number and one.call != usual
            )
    # Further on in the test with fewer calls behind it: it has left some out.
    here = max((one.phases for one in seen if one.entered == number), default=0)
    return tuple(
        Suspect(
            one.rank,
            f"is in {one.phase!r} after {one.entered} collective calls where the others made "
            f"{number}: it skipped a step",
        )
        for one in seen
        if one.entered < number and one.phases > here
    )


def dead(told: Told, plan: Plan) -> tuple[Suspect, ...]:
    """Ranks that ended by a signal or with an error of their own, not for another's sake."""
    patient = timed_out(told)
    suspects = []
    for message in told.of("exit"):
        code = message.get("code")
        if code in (0, None) or (code == -signal.SIGABRT and _watchdog(told, plan)):
            continue
        suspects.append(Suspect(message["rank"], f"{_death(code)} in {_where(told, message)}"))
    if suspects or patient:
        return tuple(suspects)
    for message in told.of("error"):
        words = str(message.get("reason", ""))
        if message.get("kind") == "start" or _second_hand(words) or "rank" not in message:
            continue
        suspects.append(
            Suspect(message["rank"], f"failed in {_where(told, message)}: {words[:200]}")
        )
    return tuple(suspects)


def _watchdog(told: Told, plan: Plan) -> bool:
    """NCCL's watchdog aborts a rank whose collective timed out: it misses somebody."""
    return plan.backend == "nccl" and "timeout" in told.output.lower()


def _death(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _where(told: Told, message: dict[str, object]) -> str:
    phase = message.get("phase") or next(
        (one.phase for one in told.seen if one.rank == message.get("rank")), ""
    )
    return str(phase or "the start")


def _second_hand(words: str) -> bool:
    return any(part in words.lower() for part in _SECOND_HAND)


def timed_out(told: Told) -> bool:
    """Whether some rank gave up waiting for others."""
    return any(
        "timed out" in str(m.get("reason")).lower() or "timeout" in str(m.get("reason")).lower()
        for m in told.of("error")
    )


def lost(told: Told) -> str | None:
    """The words of a rank whose peers went away without a word, where nobody timed out."""
    if timed_out(told):
        return None
    return next((str(m.get("reason")) for m in told.of("error") if "rank" in m), None)


def silent(told: Told) -> tuple[Suspect, ...]:
    """Ranks whose process is stopped, stuck in the kernel, or shows no sign of life."""
    gone = {m["rank"] for m in told.of("exit")}
    suspects = []
    for one in told.seen:
        if one.rank in gone or one.silent_s is None:
            continue
        quiet = one.silent_s >= SILENT_S
        if one.state in ("T", "t", "Z") or (quiet and one.state is not None):
            state = _STATES.get(one.state or "", "gives no sign of life")
            suspects.append(
                Suspect(one.rank, f"{state} in {one.phase!r}, silent for {one.silent_s:.1f} s")
            )
    return tuple(suspects)


def hanging(told: Told) -> tuple[Suspect, ...]:
    """Who holds the others: no sign of life, else whoever has not come to their collective."""
    suspects = silent(told)
    if suspects:
        return suspects
    most = max((one.entered for one in told.seen), default=0)
    return tuple(
        Suspect(
            one.rank,
            f"is in {one.phase!r} and has not come to collective {most}, where the others wait",
        )
        for one in told.seen
        if one.entered < most
    )
