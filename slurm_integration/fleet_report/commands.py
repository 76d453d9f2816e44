"""The commands an operator would run next, as text to copy. Pure.

Nothing a host said gets into a command: only node names, checked and quoted, and check names of
the known form.
"""

import re
import shlex
from collections.abc import Iterable

import msgspec

from healthcheck.model import Action
from slurm_integration.sweep import nodeset
from slurm_integration.sweep.model import Answer

_NODE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})\Z")
_CHECK = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_ORDER = list(Action)


class Command(msgspec.Struct, frozen=True):
    """A line for a shell, and what it is for. `{nodes}` stands for a quoted folded node set."""

    why: str
    line: str


_LOOK = Command("look again", "flightcheck sweep -w {nodes}")
_DRAIN = Command(
    "drain within the budget, others' drains left alone", "flightcheck sweep -w {nodes} --drain"
)
_BACK = Command("bring back by proof", "flightcheck requalify -w {nodes}")

REMEDIES: dict[Action, tuple[Command, ...]] = {
    Action.NONE: (_LOOK,),
    Action.RESTART_APP: (_LOOK,),
    Action.RESET_GPU: (
        _DRAIN,
        Command("reset the GPUs, once no job is left", "clush -w {nodes} nvidia-smi --gpu-reset"),
        _BACK,
    ),
    Action.REBOOT: (
        _DRAIN,
        Command("reboot; a drained node stays drained", "scontrol reboot {nodes}"),
        _BACK,
    ),
    Action.DRAIN: (_DRAIN, _LOOK, _BACK),
    Action.REPLACE: (
        _DRAIN,
        Command("after the repair", "flightcheck resume --replaced {nodes}"),
    ),
}
"""Remediation → what to run, in this order."""

ANSWERS: dict[Answer, tuple[Command, ...]] = {
    Answer.REPORTED: (),
    Answer.UNREACHABLE: (
        Command("what Slurm says", "sinfo -N -l -n {nodes}"),
        Command("whether it is up", "clush -w {nodes} uptime"),
    ),
    Answer.REFUSED: (Command("what Slurm says", "sinfo -N -l -n {nodes}"), _LOOK),
    Answer.WRONG_HOST_KEY: (
        Command(
            "the key that was known, if a reinstall explains it",
            "nodeset -e {nodes} | xargs -n1 ssh-keygen -F",
        ),
    ),
    Answer.UNKNOWN_HOST_KEY: (
        Command(
            "once you trust the network between",
            "flightcheck sweep -w {nodes} --via ssh --accept-new",
        ),
    ),
    Answer.NOT_INSTALLED: (
        Command("what is there", "clush -w {nodes} ls -l /opt/flightcheck/bin"),
    ),
    Answer.OTHER_VERSION: (
        Command("which version", "clush -b -w {nodes} /opt/flightcheck/bin/flightcheck --version"),
    ),
    Answer.TIMED_OUT: (_LOOK, Command("whether it is up", "clush -w {nodes} uptime")),
    Answer.GARBAGE: (
        Command("see it with your own eyes", "clush -w {nodes} flightcheck check --json"),
    ),
    Answer.TOO_MUCH_OUTPUT: (
        Command("see it with your own eyes", "clush -w {nodes} 'flightcheck check --json | head'"),
    ),
    Answer.INTERRUPTED: (_LOOK,),
}


def explain(checks: Iterable[str]) -> list[Command]:
    """One `flightcheck explain` a check, at most three; names of another form are left out."""
    known = [name for name in dict.fromkeys(checks) if _CHECK.match(name)]
    return [Command(f"what {name} means", f"flightcheck explain {name}") for name in known[:3]]


def strongest(actions: Iterable[Action]) -> Action:
    """The remedy that mends most."""
    return max(actions, key=_ORDER.index, default=Action.NONE)


def filled(commands: Iterable[Command], nodes: Iterable[str]) -> list[Command]:
    """The commands for these nodes; none where a name is not one a shell or Slurm should see."""
    names = list(nodes)
    if not names or not all(_NODE.match(name) for name in names):
        return []
    quoted = shlex.quote(fold(names))
    return [Command(one.why, one.line.replace("{nodes}", quoted)) for one in commands]


def fold(names: Iterable[str]) -> str:
    """`node[001-480]`; names that are no node names are listed as they are, after the others."""
    good: list[str] = []
    odd: list[str] = []
    for name in names:
        (good if _NODE.match(name) else odd).append(name)
    folded = nodeset.fold(good) if good else ""
    return ", ".join(filter(None, [folded, *odd]))
