"""`flightcheck classify`: why did this job fail, which rank and node began it, whose fault?"""

import os
import re
import stat
from collections.abc import Sequence

import click
import msgspec

from epilog.classify import Heard, classify, job_facts, node_facts
from epilog.model import to_data
from epilog.report_text import as_text
from epilog.scan import ScanResult, Settings, Source, scan_files
from slurm_integration.folded import parts
from slurm_integration.sweep.nodeset import named

MAX_NODES = 65_536
MAX_FILES = 65_536
_EXIT = re.compile(r"(\d{1,5})(?::(\d{1,3}))?")


@click.command("classify")
@click.argument("logs", nargs=-1, metavar="LOG...", type=click.Path())
@click.option("--exit-code", metavar="E:S", help="Exit code and signal as Slurm tells them (1:0).")
@click.option("--nodes", metavar="LIST", default="", help="The job's nodes: node[01-04].")
@click.option(
    "--tasks-per-node",
    metavar="N",
    type=click.IntRange(1, 4096),
    help="Tasks (or ranks) on each node, in blocks.",
)
@click.option(
    "--kernel-log",
    "kernel_logs",
    metavar="FILE@NODE",
    multiple=True,
    help="A node's kernel log (dmesg, journalctl -k): facts of that node. May be repeated.",
)
@click.option(
    "--flight-recorder",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Folder with PyTorch flight-recorder dumps, one file a rank.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def command(
    logs: tuple[str, ...],
    exit_code: str | None,
    nodes: str,
    tasks_per_node: int | None,
    kernel_logs: tuple[str, ...],
    flight_recorder: str | None,
    as_json: bool,
) -> None:
    """Say why a job failed, from its logs and what else there is.

    A drain is only advised with a fact of the node itself (--kernel-log): users write the logs.
    Exit code 0 whether or not a cause was found, 64 for wrong usage.
    """
    if not logs and not kernel_logs and not flight_recorder:
        raise click.UsageError("nothing to read: give a LOG, --kernel-log or --flight-recorder")
    facts = job_facts(_exit_code(exit_code), _nodes(nodes), tasks_per_node)
    notes: list[str] = []
    scanned = scan_files(_sources(logs, notes), Settings(nodes=facts.nodes))
    heard = _heard(kernel_logs, flight_recorder, _time_of(scanned), notes)
    answer = classify(facts, scanned, heard)
    for note in (*notes, *scanned.notes, *heard.notes):
        click.echo(f"flightcheck classify: {note}", err=True)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(to_data(answer)), indent=2).decode())
    else:
        click.echo(as_text(answer))


def _exit_code(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = _EXIT.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"expected EXIT:SIGNAL such as 1:0, found {text!r}")
    return int(found[1]), int(found[2] or 0)


def _nodes(text: str) -> tuple[str, ...]:
    """The nodes in the order they are given, as Slurm orders them."""
    if not text.strip():
        return ()
    found: list[str] = []
    for part in parts(text.strip()):
        try:
            some = named(part)
        except ValueError as error:
            raise click.BadParameter(f"--nodes {text[:60]!r}: {error}") from error
        if len(found) + len(some) > MAX_NODES:
            raise click.BadParameter(f"--nodes: more than {MAX_NODES} nodes in {text[:60]!r}")
        found += some
    return tuple(dict.fromkeys(found))


def _sources(logs: Sequence[str], notes: list[str]) -> list[Source | str]:
    """Readable logs; a folder, a FIFO or a device is named and left out."""
    kept: list[Source | str] = []
    for path in logs[:MAX_FILES]:
        trouble = _unfit(path)
        if trouble:
            notes.append(f"{path}: not read: {trouble}")
        else:
            kept.append(path)
    return kept


def _unfit(path: str) -> str:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    if stat.S_ISREG(mode):
        return ""
    return "it is a folder" if stat.S_ISDIR(mode) else "not a regular file"


def _heard(
    kernel_logs: Sequence[str], recorder: str | None, near: float | None, notes: list[str]
) -> Heard:
    facts = []
    for given in kernel_logs:
        path, at, node = given.rpartition("@")
        if not at or not path or not node:
            raise click.BadParameter(f"--kernel-log: expected FILE@NODE, found {given!r}")
        trouble = _unfit(path)
        try:
            if trouble:
                raise OSError(0, trouble)
            with open(path, "rb") as file:
                facts += node_facts(path, file, node.partition(".")[0], near)
        except OSError as error:
            notes.append(f"{path}: not read: {error.strerror or error}")
    if recorder is None:
        return Heard(evidence=tuple(facts))
    dumps = _dumps(recorder, notes)
    return Heard((*facts, *dumps.evidence), dumps.works, dumps.notes)


def _dumps(folder: str, notes: list[str]) -> Heard:
    from epilog.recorder import read_dumps

    try:
        names = sorted(entry.path for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        notes.append(f"{folder}: not read: {error.strerror}")
        return Heard()
    files = []
    for name in names[:MAX_FILES]:
        try:
            files.append((name, open(name, "rb")))  # noqa: SIM115 - closed below
        except OSError as error:
            notes.append(f"{name}: not read: {error.strerror}")
    try:
        result = read_dumps(files)
    finally:
        for _, file in files:
            file.close()
    return Heard(result.evidence, result.works, result.notes)


def _time_of(scanned: ScanResult) -> float | None:
    return next((e.at for e in scanned.evidence if e.at is not None), None)
