"""`flightcheck resume NODES`: gives back what we drained, and nothing else."""

import math
import re

import click
import msgspec
from ClusterShell.NodeSet import NodeSet, NodeSetException

from slurm_integration.commands.listing import fold
from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.reason import take_apart
from slurm_integration.scontrol import Scontrol

EXIT_NO_SLURM = 3
EXIT_REFUSED = 2
MAX_NODES = 100_000


class Plan(msgspec.Struct, frozen=True):
    """What a resume would do. `refused` is (node, why) pairs."""

    resume: tuple[str, ...]
    idle: tuple[str, ...]
    """In service already."""
    refused: tuple[tuple[str, str], ...]


def plan_resume(asked: list[str], nodes: list[NodeState], *, replaced: bool) -> Plan:
    """Sort the nodes asked for into ours, in service and refused. Pure."""
    known = {node.name: node for node in nodes}
    resume, idle, refused = [], [], []
    for name in asked:
        node = known.get(name)
        if node is None:
            refused.append((name, "Slurm knows no node of this name"))
        elif not node.held:
            idle.append(name)
        elif why := _refusal(node, replaced):
            refused.append((name, why))
        else:
            resume.append(name)
    return Plan(tuple(resume), tuple(idle), tuple(refused))


def _refusal(node: NodeState, replaced: bool) -> str:
    if node.foreign:
        by = f" by {node.reason_user}" if node.reason_user else ""
        return (
            f"held{by}, not by flightcheck: {node.reason or 'no reason given'}. "
            f"Whoever did that resumes it: scontrol update NodeName={node.name} State=RESUME"
        )
    if take_apart(node.reason or "").replace and not replaced:
        return f"hardware to be replaced: {node.reason}. Once that is done, add --replaced"
    return ""


@click.command("resume")
@click.argument("nodelist")
@click.option("--replaced", is_flag=True, help="The hardware that had to be replaced has been.")
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option("--scontrol", default="", help="Absolute path of scontrol; default: searched.")
def command(nodelist: str, replaced: bool, dry_run: bool, scontrol: str) -> None:
    """Return the nodes of NODELIST (`node[01-04,07]`) to service if flightcheck drained them.

    Drains of others are refused. Exit code 0; 2 where a node was refused (the others are still
    resumed); 3 where Slurm can't be read or refuses.
    """
    asked = _expand(nodelist)
    slurm = Scontrol(scontrol, timeout_s=30)
    answer = slurm.show_nodes()
    if not answer.ok:
        _fail(f"can't read the nodes: {answer.trouble()}", EXIT_NO_SLURM)
    plan = plan_resume(asked, parse_nodes(answer.stdout), replaced=replaced)
    for name, why in plan.refused:
        click.echo(f"flightcheck resume: {name} refused: {why}", err=True)
    if plan.idle:
        click.echo(f"{fold(plan.idle)}: in service already")
    if plan.resume and dry_run:
        click.echo(f"{fold(plan.resume)}: would be resumed (dry run)")
    elif plan.resume:
        done = slurm.update_nodes(fold(plan.resume), {"State": "RESUME"})
        if not done.ok:
            _fail(f"{fold(plan.resume)} not resumed: {done.trouble()}", EXIT_NO_SLURM)
        click.echo(f"{fold(plan.resume)}: resumed")
    if plan.refused:
        raise SystemExit(EXIT_REFUSED)


def _expand(nodelist: str) -> list[str]:
    size = _upper_bound(nodelist)
    if size > MAX_NODES:  # before NodeSet builds them all in memory
        raise click.UsageError(f"NODELIST: expected 1 to {MAX_NODES} nodes, found {size}")
    try:
        nodes = NodeSet(nodelist)
    except NodeSetException as error:
        raise click.UsageError(f"NODELIST: expected node[01-04,07] or the like: {error}") from error
    if not 1 <= len(nodes) <= MAX_NODES:
        raise click.UsageError(f"NODELIST: expected 1 to {MAX_NODES} nodes, found {len(nodes)}")
    return list(nodes)


def _upper_bound(nodelist: str) -> int:
    """How many names the list can stand for at most."""
    total = 0
    for term in re.split(r",(?![^\[]*\])", nodelist):
        brackets = re.findall(r"\[([^\]]*)\]?", term)
        total += math.prod(sum(map(_range_size, text.split(","))) for text in brackets)
    return total


def _range_size(text: str) -> int:
    found = re.match(r"\s*(\d{1,18})\s*-\s*(\d+)", text)
    return max(1, int(found[2][:18]) - int(found[1]) + 1) if found else 1


def _fail(text: str, code: int) -> None:
    click.echo(f"flightcheck resume: {text}", err=True)
    raise SystemExit(code)
