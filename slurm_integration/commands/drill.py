"""`flightcheck drill`: every fault at every stage, or faults rehearsed on a real node."""

import os
from typing import Any

import click
import msgspec

from healthcheck.config import CONFIG_PATH, load_config
from healthcheck.registry import STAGES

EXIT_WRONG = 1


@click.command("drill")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Node types; all by default.")
@click.option("--stage", "stages", multiple=True, type=click.Choice(STAGES),
              help="Stages; all by default.")  # fmt: skip
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME",
    help="Faults (`flightcheck sandbox faults`); by default all, and none at all.",
)
@click.option("--slurm", is_flag=True, help="On a real Slurm cluster in a folder of its own, "
              "by default a representative set.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="With --slurm: every fault (10 minutes).")
@click.option("--dry-run", is_flag=True, help="A rehearsal on a real node: the faults are put "
              "into what was seen of it, the decision is shown, nothing is changed.")  # fmt: skip
@click.option("--node", metavar="NAME", help="With --dry-run: another node than this one, read "
              "as `flightcheck sweep` reads it.")  # fmt: skip
@click.option("--snapshot", metavar="FILE", help="With --dry-run: a node's snapshot, from "
              "`flightcheck check --save`.")  # fmt: skip
@click.option("--root", metavar="DIR", envvar="FLIGHTCHECK_ROOT", help="With --dry-run: a folder "
              "that stands for this machine.")  # fmt: skip
@click.option("--program", metavar="PATH", default="flightcheck", show_default=True,
              help="With --node: flightcheck on it.")  # fmt: skip
@click.option("--ssh-config", metavar="FILE", default="", help="With --node: as ssh -F.")
@click.option("-v", "--verbose", is_flag=True, help="A line for every case.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for every case.")
@click.option("--workers", type=click.IntRange(1, 64), help="Cases at a time; default: the cores.")
@click.option("--config", metavar="FILE", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH,
              show_default=True, help="With --dry-run: the site's configuration.")  # fmt: skip
def command(
    types: tuple[str, ...], stages: tuple[str, ...], faults: tuple[str, ...], **given: Any
) -> int:  # fmt: skip
    """Play faults and see whether each is found, rightly judged, and nothing else is.

    On simulated nodes, through the real probes, checks and policy: no Slurm is asked and nothing
    on this machine changes. It needs a C compiler, for the simulated NVML.

    Exit code: 0 where all went right, 1 where something was missed or accused without reason,
    64 for wrong usage.
    """
    from slurm_integration.drill.rehearse import RehearsalError
    from slurm_integration.sandbox.cluster import SandboxError
    from slurm_integration.sandbox.faults.registry import FaultError
    from slurm_integration.sandbox.machine.types import NODE_TYPES
    from slurm_integration.sandbox.nvml.build import BuildError

    for name in types:
        if name not in NODE_TYPES:
            raise click.UsageError(f"no node type {name!r}; there are {', '.join(NODE_TYPES)}")
    for option in ("node", "snapshot"):
        if given[option] and not given["dry_run"]:
            raise click.UsageError(
                f"--{option}: a real node is never broken; add --dry-run to rehearse on it"
            )
    if given["slurm"] and given["dry_run"]:
        raise click.UsageError("--slurm builds a cluster of its own: not with --dry-run")
    try:
        if given["dry_run"]:
            return _rehearse(types, stages or ("prolog",), faults, given)
        return _play(types, stages, faults, given)
    except (FaultError, BuildError, RehearsalError, SandboxError) as error:
        raise click.UsageError(str(error)) from error


def _play(
    types: tuple[str, ...], stages: tuple[str, ...], faults: tuple[str, ...], given: dict[str, Any]
) -> int:
    from slurm_integration.drill.play import cases, play
    from slurm_integration.drill.text import tables, words

    if given["slurm"]:
        from slurm_integration.drill.cluster import play_on_slurm, slurm_cases

        playing = play_on_slurm(slurm_cases(types, stages, faults, everything=given["everything"]))
    else:
        workers = given["workers"] or os.cpu_count() or 1
        playing = play(cases(types, stages, faults), workers)
    played = []
    for one in playing:
        played.append(one)
        if given["as_json"]:
            click.echo(msgspec.json.encode(one).decode())
        elif given["verbose"] or not one.good:
            click.echo(words(one))
    if not given["as_json"]:
        click.echo("\n".join(tables(played)) if played else "no such case: nothing was played")
    return 0 if played and all(one.good for one in played) else EXIT_WRONG


def _rehearse(
    types: tuple[str, ...], stages: tuple[str, ...], faults: tuple[str, ...], given: dict[str, Any]
) -> int:
    from slurm_integration.drill.rehearse import read_here, read_there, rehearse, words

    config, notes, refused = load_config(given["config"])
    if refused:
        raise click.UsageError(f"the configuration is refused: {notes[0]}")
    if len(types) > 1 or (given["node"] and given["snapshot"]):
        raise click.UsageError("--dry-run: expected one node of one type")
    if given["snapshot"]:
        real = _load(given["snapshot"])
    elif given["node"]:
        real = read_there(given["node"], config, given["program"], given["ssh_config"])
    else:
        real = read_here(given["root"], config)
    ends = []
    for one in rehearse(real, faults, stages, config, types[0] if types else ""):
        ends.append(one.end)
        if given["as_json"]:
            click.echo(msgspec.json.encode(one).decode())
        else:
            click.echo("\n".join(words(one)))
    if not given["as_json"]:
        told = ", ".join(f"{ends.count(end)} {end}" for end in ("found", "missed", "not-here"))
        click.echo(f"{told}; nothing was changed")
    return EXIT_WRONG if "missed" in ends else 0


def _load(path: str) -> Any:
    from healthcheck.host import MAX_TEXT
    from healthcheck.model.snapshot import decode_snapshot

    try:
        with open(path, "rb") as file:
            return decode_snapshot(file.read(1024 * MAX_TEXT))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--snapshot {path}: {error}") from error
