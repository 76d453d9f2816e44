"""`flightcheck sandbox`: simulated machines, alone or as the nodes of a real Slurm cluster."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click

DEFAULT_DIR = ".sandbox"


@click.group("sandbox")
def command() -> None:
    """Simulated nodes: break them and see what is found.

    `run` tries a command on one node without Slurm. `up` starts a real Slurm cluster whose nodes
    have simulated hardware; `break`, `heal`, `status` and `down` work on that.
    """


_dir = click.option(
    "--dir",
    "folder",
    metavar="DIR",
    envvar="FLIGHTCHECK_SANDBOX_DIR",
    default=DEFAULT_DIR,
    show_default=True,
    help="The cluster's folder (or $FLIGHTCHECK_SANDBOX_DIR).",
)
_type = click.option(
    "--type",
    "type_name",
    metavar="TYPE",
    default="h100-sxm",
    show_default=True,
    help="Node type: a shipped profile's name.",
)


@contextmanager
def _told() -> Iterator[None]:
    """Errors that a user can mend, as one line."""
    from slurm_integration.sandbox.cluster import SandboxError
    from slurm_integration.sandbox.faults.registry import FaultError
    from slurm_integration.sandbox.machine.live import MachineError
    from slurm_integration.sandbox.nvml.build import BuildError

    try:
        yield
    except (SandboxError, FaultError, MachineError, BuildError, OSError) as error:
        raise click.ClickException(str(error)) from error


@command.command("faults")
@click.option("--type", "type_name", metavar="TYPE", help="Only faults this node type can have.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list in place of the table.")
def list_faults(type_name: str | None, as_json: bool) -> None:
    """List all faults and what must be found of each."""
    from slurm_integration.commands.sandbox_faults import as_table, rows, to_json

    with _told():
        chosen = rows(type_name)
    click.echo(to_json(chosen) if as_json else as_table(chosen))


@command.command("run", context_settings={"ignore_unknown_options": True})
@_type
@click.option("--break", "faults", metavar="FAULT", multiple=True, help="NAME or NAME:NUMBER.")
@click.option("--dir", "folder", metavar="DIR", help="Keep the machine here; default: a temporary.")
@click.option("--node", default="node01", show_default=True, help="The node's name.")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def run_on_machine(
    type_name: str, faults: tuple[str, ...], folder: str | None, node: str, argv: tuple[str, ...]
) -> int:
    """Run a command on one simulated node, without Slurm; its exit code is ours.

    The node takes a healthy baseline first, then gets the faults. A fault's number says which
    GPU or adapter it hits, counted from 0.
    """
    from slurm_integration.commands.sandbox_run import run

    with _told():
        return run(type_name, faults, folder, node, argv)


@command.command("up")
@click.option("--nodes", type=click.IntRange(1, 64), default=4, show_default=True)
@_type
@_dir
def start(nodes: int, type_name: str, folder: str) -> None:
    """Start a Slurm cluster of simulated nodes on this machine (root, slurm-wlm, munge)."""
    from slurm_integration.commands.sandbox_cluster import start_cluster, table

    with _told():
        now = start_cluster(os.path.abspath(folder), nodes, type_name)
    click.echo(table(os.path.abspath(folder), now))
    click.echo(f"\nexport SLURM_CONF={os.path.abspath(folder)}/etc/slurm.conf")


@command.command("status")
@_dir
def show(folder: str) -> int:
    """Show the nodes, Slurm's opinion of them, and their faults. Exit code 1 where none runs."""
    from slurm_integration.commands.sandbox_cluster import table
    from slurm_integration.sandbox.cluster import status

    now = status(os.path.abspath(folder))
    click.echo(table(os.path.abspath(folder), now))
    return 0 if now.running else 1


@command.command("break")
@click.argument("node")
@click.argument("faults", metavar="FAULT...", nargs=-1, required=True)
@_dir
def break_node(node: str, faults: tuple[str, ...], folder: str) -> None:
    """Give a node faults: NAME, or NAME:NUMBER for a certain GPU or adapter."""
    from slurm_integration.commands.sandbox_cluster import root_of
    from slurm_integration.commands.sandbox_faults import expectation
    from slurm_integration.sandbox.faults.registry import find_fault
    from slurm_integration.sandbox.machine.live import break_machine

    with _told():
        break_machine(root_of(os.path.abspath(folder), node), *faults)
    for fault in faults:
        declared = find_fault(fault.partition(":")[0])
        click.echo(f"{node}: {fault}: {declared.text}\n  to be found: {expectation(declared)}")


@command.command("heal")
@click.argument("node")
@_dir
def heal_node(node: str, folder: str) -> None:
    """Mend everything on a node; it boots afresh. Resume it in Slurm as you would a real one."""
    from slurm_integration.commands.sandbox_cluster import root_of
    from slurm_integration.sandbox.machine.live import heal_machine, read_record

    root = root_of(os.path.abspath(folder), node)
    with _told():
        had = read_record(root).broken_by
        heal_machine(root)
    click.echo(f"{node}: mended {', '.join(had)}" if had else f"{node}: had no fault, rebooted")


@command.command("down")
@click.option("--remove", is_flag=True, help="Remove the folder too.")
@_dir
def stop(remove: bool, folder: str) -> None:
    """End every process of the cluster."""
    from slurm_integration.sandbox.cluster import down

    with _told():
        ended = down(os.path.abspath(folder), remove=remove)
    click.echo(f"ended {ended} processes" if ended else "nothing was running")
