"""What install and uninstall say. Pure, but for the colours on a terminal."""

import difflib

import click

from healthcheck.report.clean import clean
from slurm_integration.install.lines import Advice
from slurm_integration.install.model import WRITES, Do, Plan, Step

COLOURS = {Do.NEW: "green", Do.UPDATE: "cyan", Do.REPLACE: "yellow", Do.MODE: "cyan",
           Do.KEPT: "yellow", Do.REMOVE: "red", Do.FORGET: "yellow"}  # fmt: skip
WORDS = {Do.FORGET: "kept"}
_ADMIN = "systemctl enable --now flightcheck-collect.timer flightcheck-requalify.timer"


def steps_text(plan: Plan, *, verbose: bool) -> list[str]:
    """A line a path; those that are as they should be only if asked for."""
    return [_line(step) for step in plan.steps if verbose or step.do is not Do.SAME]


def _line(step: Step) -> str:
    word = click.style(f"{WORDS.get(step.do, step.do.value):<8}", fg=COLOURS.get(step.do))
    leads = step.item.text if step.item and step.item.kind == "link" else ""
    to = f" -> {clean(leads)}" if leads else ""
    return f"{word}{clean(step.path)}{to}{f' ({clean(step.why)})' if step.why else ''}"


def diffs(plan: Plan, *, everything: bool) -> list[str]:
    """Unified diffs: of what is kept though it differs; with `everything`, of what is written."""
    lines: list[str] = []
    for step in plan.steps:
        kept = step.do is Do.KEPT and step.item is not None and not step.item.seed
        if kept or (everything and step.do in WRITES):
            lines += _diff(step)
    return lines


def _diff(step: Step) -> list[str]:
    assert step.item is not None
    old = step.found.text.decode("utf-8", "replace").splitlines()
    new = step.item.text.splitlines()
    if step.item.kind == "link" or step.found.kind == "link":
        old = [f"(link to {line})" for line in old] if step.found.kind == "link" else old
        new = [f"(link to {line})" for line in new] if step.item.kind == "link" else new
    before = step.path if step.found.kind != "missing" else "/dev/null"
    shown = difflib.unified_diff(old, new, before, step.path, lineterm="")
    return [_coloured(_printable(line)) for line in shown]


def _printable(line: str) -> str:
    """The line with its spaces, but nothing that a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in line.expandtabs())[:500]


def _coloured(line: str) -> str:
    if line.startswith(("---", "+++")):
        return click.style(line, bold=True)
    colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return click.style(line, fg=colour) if colour else line


def advice_text(advice: Advice, conf: str, plugstack: str, trouble: str) -> list[str]:
    """The lines to write by hand, and what to do then."""
    lines: list[str] = []
    if trouble:
        lines += ["", f"Slurm's configuration could not be read ({clean(trouble, 300)}): what of "
                  "this is there already is not known."]  # fmt: skip
    if advice.slurm:
        lines += ["", "Once this has been run on every node (a missing hook drains its node), "
                  f"write into {conf}, in place of lines of the same name:"]  # fmt: skip
        lines += [f"    {line}" for line in advice.slurm]
        lines += ["then: scontrol reconfigure; flightcheck doctor"]
    if advice.plugstack:
        lines += ["", f"Add to {plugstack}:", *(f"    {line}" for line in advice.plugstack)]
    for note in advice.notes:
        lines += ["", note]
    lines += ["", f"On the admin host: systemctl daemon-reload; {_ADMIN}"]
    return lines
