"""`flightcheck resume NODES`: gives back what we drained, and nothing else."""

import os

import click
import msgspec

from healthcheck.config import CONFIG_PATH, load_config
from slurm_integration.history.tell import tell_history
from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.reason import take_apart
from slurm_integration.scontrol import Scontrol
from slurm_integration.sweep.model import SweepError
from slurm_integration.sweep.nodeset import expand, fold

EXIT_NO_SLURM = 3
EXIT_REFUSED = 2


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
@click.option("--config", metavar="FILE", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH,
              show_default=True, help="Configuration, whose history_db is told.")  # fmt: skip
def command(nodelist: str, replaced: bool, dry_run: bool, scontrol: str, config: str) -> None:
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
        _remember(plan.resume, config, replaced=replaced)
    if plan.refused:
        raise SystemExit(EXIT_REFUSED)


def _remember(nodes: tuple[str, ...], path: str, *, replaced: bool) -> None:
    """Tell the fleet's history who resumed what; a history that is not there stops nobody."""
    config, _, _ = load_config(path)
    who = os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"
    told = f"resumed by {who}" + (", hardware replaced" if replaced else "")
    note = tell_history(config, "resume", nodes, told, outcome="resumed", stage="resume")
    if note:
        click.echo(f"flightcheck resume: {note}", err=True)


def _expand(nodelist: str) -> list[str]:
    try:
        return expand(nodelist, "NODELIST")
    except SweepError as error:
        raise click.UsageError(str(error)) from error


def _fail(text: str, code: int) -> None:
    click.echo(f"flightcheck resume: {text}", err=True)
    raise SystemExit(code)
