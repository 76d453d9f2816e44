"""`make man`: man pages from the commands and the commented configuration.

python -m docs.generate.man FOLDER
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from healthcheck import __version__
from healthcheck.cli import flightcheck

ROOT = Path(__file__).parents[2]
HOOKS = {
    "prolog": ("Slurm's Prolog: go or no-go for this node, before a job",
               "Exit code 0: the job runs here. 75: the node was drained, and Slurm sends the job "
               "elsewhere. Nothing else is ever a failure of a hook."),
    "epilog": ("Slurm's Epilog: the node after a job, and why the job failed",
               "Exit code 0; 75 where Slurm has to drain the node itself, or with [epilog.requeue] "
               "mode = \"expedite\" on proven hardware."),
    "health": ("Slurm's HealthCheckProgram: the node between jobs",
               "Always exit code 0: slurmd only logs how a health program ends."),
    "task-prolog": ("Slurm's TaskProlog: what a job's tasks are given and told",
                    "Exit code 0. Runs as the job's user."),
}  # fmt: skip


def main(argv: list[str]) -> int:
    """Write man1, man5 and man8 below the folder."""
    if len(argv) != 1:
        print("usage: python -m docs.generate.man FOLDER", file=sys.stderr)
        return 64
    for name, text in pages().items():
        path = Path(argv[0]) / f"man{name[-1]}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


def pages() -> dict[str, str]:
    """All pages: `flightcheck-sweep.1` → its text. Pure but for loading the commands."""
    context = click.Context(flightcheck, info_name="flightcheck")
    found = {"flightcheck.1": _group(flightcheck, context, "flightcheck")}
    for name in flightcheck.list_commands(context):
        command = flightcheck.get_command(context, name)
        assert command is not None
        found |= _command(command, f"flightcheck {name}", context)
    found |= {f"flightcheck-{name}.8": _hook(name, *words) for name, words in HOOKS.items()}
    found["flightcheck.toml.5"] = _configuration()
    return found


def _command(command: click.Command, name: str, above: click.Context) -> dict[str, str]:
    context = click.Context(command, above, info_name=name.rpartition(" ")[2])
    page = name.replace(" ", "-") + ".1"
    if not isinstance(command, click.Group):
        return {page: _page(command, context, name)}
    found = {page: _group(command, context, name)}
    for one in command.list_commands(context):
        inner = command.get_command(context, one)
        if inner is not None:
            found |= _command(inner, f"{name} {one}", context)
    return found


def _page(command: click.Command, context: click.Context, name: str) -> str:
    return "\n".join([*_head(command, context, name), *_options(command, context), *_tail()])


def _group(group: click.Group, context: click.Context, name: str) -> str:
    lines = [*_head(group, context, name), *_options(group, context), ".SH COMMANDS"]
    for one in group.list_commands(context):
        inner = group.get_command(context, one)
        if inner is not None:
            words = f"{name} {one}".replace(" ", "-")
            lines += [".TP", f".BR {_text(words)} (1)", _text(inner.get_short_help_str(200))]
    return "\n".join([*lines, *_tail()])


def _head(command: click.Command, context: click.Context, name: str) -> Iterator[str]:
    yield _title(name.replace(" ", "-").upper(), 1)
    yield ".SH NAME"
    does = command.get_short_help_str(200).rstrip(".")
    yield f"{_text(name.replace(' ', '-'))} \\- {_text(does)}"
    yield ".SH SYNOPSIS"
    yield f".B {_text(name)}"
    yield _text(" ".join(command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or "")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [
        record for one in command.get_params(context) if (record := one.get_help_record(context))
    ]
    if records:
        yield ".SH OPTIONS"
    for names, words in records:
        yield ".TP"
        yield f".B {_text(names)}"
        yield _text(words)


def _hook(name: str, does: str, exits: str) -> str:
    lines = [
        _title(f"FLIGHTCHECK-{name.upper()}", 8), ".SH NAME",
        f"flightcheck\\-{_text(name)} \\- {_text(does)}", ".SH SYNOPSIS",
        f".B flightcheck\\-{_text(name)}", ".SH DESCRIPTION",
        "Called by Slurm, which tells it everything in its environment; it takes no arguments.",
        "What it says stands in slurmd's log in lines that begin with \"flightcheck:\".",
        ".SH EXIT STATUS", _text(exits), ".SH FILES", "/etc/flightcheck/flightcheck.toml",
        ".br", "/var/lib/flightcheck", *_tail(),
    ]  # fmt: skip
    return "\n".join(lines)


def _configuration() -> str:
    """The commented example, block by block."""
    lines = [
        _title("FLIGHTCHECK.TOML", 5), ".SH NAME",
        "flightcheck.toml \\- configuration of flightcheck", ".SH DESCRIPTION",
    ]  # fmt: skip
    for block in (ROOT / "healthcheck/data/flightcheck.toml").read_text().split("\n\n"):
        words = [line[2:] for line in block.splitlines() if line.startswith("# ")]
        keys = [line[1:] for line in block.splitlines() if re.match(r"#[^ ]", line)]
        lines += [".PP", _text(" ".join(words))] if words else []
        if keys:
            lines += [".RS", ".nf", *(_text(key) for key in keys), ".fi", ".RE"]
    return "\n".join([*lines, *_tail()])


def _title(name: str, section: int) -> str:
    return f'.TH "{_text(name)}" {section} "" "flightcheck {__version__}" "flightcheck"'


def _tail() -> list[str]:
    return [".SH SEE ALSO", ".BR flightcheck (1),", ".BR flightcheck.toml (5)", ""]


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.replace("\b\n", "").split("\n\n"):
        yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _text(text: Any) -> str:
    """Plain words for roff: no line is taken for a request, no backslash for an escape."""
    safe = " ".join(str(text).split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
