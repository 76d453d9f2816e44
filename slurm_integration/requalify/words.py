"""A round in words, for an operator at 3 a.m. Pure."""

import shlex
import time

from healthcheck.model import Action
from slurm_integration.requalify.book import Record
from slurm_integration.requalify.round import Round
from slurm_integration.requalify.rules import Rules
from slurm_integration.requalify.standing import Stand, Standing
from slurm_integration.sweep.nodeset import fold

_REMEDIES = {
    Action.RESET_GPU: "ssh {node} nvidia-smi --gpu-reset",
    Action.REBOOT: "scontrol reboot {node}",
    Action.REPLACE: "repair it, then: flightcheck resume --replaced {node}",
}
"""What an operator runs; for the other remedies the message itself says what to do."""


def as_text(done: Round, rules: Rules) -> str:
    """Lines: what was done first, then where the others stand; equal ones folded."""
    lines = [f"note: {note}" for note in done.notes]
    acts: dict[str, list[str]] = {}
    for one in done.done:
        acts.setdefault(f"{one.what}{_tail(one.why)}", []).extend(one.nodes)
    lines += [f"{fold(nodes)}: {words}" for words, nodes in acts.items()]
    told = {name for one in done.done if one.what == "would-resume" for name in one.nodes}
    groups: dict[str, list[str]] = {}
    for standing in done.standings:
        if standing.node not in told:
            words = say(standing, done.book.of(standing.node), rules)
            groups.setdefault(words, []).append(standing.node)
    for words, nodes in groups.items():
        folded = fold(nodes)
        lines.append(f"{folded}: {words.replace('{node}', shlex.quote(folded))}")
    if not done.standings and not done.done:
        lines.append("flightcheck holds no node drained that could come back")
    if done.foreign:
        lines.append(f"{fold(done.foreign)}: held by others, left alone")
    return "\n".join(lines)


def say(standing: Standing, record: Record, rules: Rules) -> str:
    """One standing in words; `{node}` stands for the node set in a command."""
    match standing.stand:
        case Stand.REPLACE:
            return (
                f"hardware to be replaced, does not come back by itself: {_brace(standing.why)}; "
                "once repaired: flightcheck resume --replaced {node}"
            )
        case Stand.FLAPPING:
            return f"does not come back by itself: {standing.why}; to decide otherwise: " + (
                "flightcheck resume {node}"
            )
        case Stand.HELD_OFF:
            return f"left alone until {clock(standing.until)}: {standing.why}"
        case Stand.WAITING:
            return f"{standing.why}, the next counts from {clock(standing.until)}"
        case Stand.DUE:
            return _due(standing, record, rules)
        case _:
            return f"{standing.stand.value}: {standing.why}"


def _due(standing: Standing, record: Record, rules: Rules) -> str:
    if record.trouble:
        return f"still sick: {_brace(record.trouble)}{_next(record, rules)}"
    if record.passes:
        return f"{standing.why}, to be looked at again"
    return "to be looked at"


def _next(record: Record, rules: Rules) -> str:
    command = _REMEDIES.get(record.remedy)
    if command is None:
        return ""
    if record.remedy is Action.REBOOT and len(record.reboots) >= max(rules.max_reboots, 1):
        return (
            f"; rebooted {len(record.reboots)} times already: the hardware wants a look, "
            "not a further reboot"
        )
    return f"; next: {command}"


def clock(at: float | None) -> str:
    """`2030-01-02 03:04 UTC`."""
    return "?" if at is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))


def _brace(text: str) -> str:
    """Hosts' words may hold what looks like our placeholder."""
    return text.replace("{node}", "(node)")


def _tail(why: str) -> str:
    return f": {why}" if why else ""
