"""`flightcheck allreduce`: on this node; in a step of several nodes, or with --nodes, across them.

The command of one node with what several nodes add. Everything that is not about several nodes
stays where it is: this only decides who does the work.
"""

import os
import sys
import time
from typing import Any

import click

from healthcheck.allreduce.choose import CannotChoose, choose
from healthcheck.allreduce.model import GpuPlace
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.allreduce.sizes import parse_size
from healthcheck.commands.allreduce import command as single
from healthcheck.config import load_config, section
from healthcheck.host import host_at
from healthcheck.runner import Request
from healthcheck.runner import run as look
from slurm_integration.allreduce_nodes.model import Rule
from slurm_integration.allreduce_nodes.step import (
    Step,
    StepError,
    read_step,
    several_nodes,
    spare_task,
)

TIMEOUT_S = {"quick": 300.0, "full": 1800.0}
JOIN_S = 30.0

OPTIONS: list[click.Parameter] = [
    click.Option(["--nodes", "nodelist"], metavar="NODELIST", default="",
                 help="Test these nodes from outside, as a job through srun."),
    click.Option(["--expect"], type=click.FloatRange(0, min_open=True), metavar="GB/S",
                 help="Several nodes: the bus bandwidth that a good pair reaches."),
    click.Option(["--slow-below"], type=click.FloatRange(0, 1), default=0.8, show_default=True,
                 help="Several nodes: slow is below this part of what is expected or usual."),
    click.Option(["--localise"], type=click.Choice(["auto", "always", "never"]), default="auto",
                 show_default=True, help="Several nodes: find the node or link to blame. auto: "
                 "where the set fails, is slow, or no figure is expected."),
    click.Option(["--join"], type=click.FloatRange(1, 600), default=JOIN_S, show_default=True,
                 help="Several nodes: seconds for every node to show up."),
    click.Option(["--srun", "srun_options"], multiple=True, metavar="OPTION",
                 help="With --nodes: a further option for srun, such as --partition=gpu."),
    click.Option(["--program"], metavar="PATH", default="flightcheck", show_default=True,
                 help="With --nodes: flightcheck on the nodes."),
]  # fmt: skip

HELP = (
    (single.help or "")
    + """

    Across nodes: `srun flightcheck allreduce` as a job's first step (never in a prolog: srun
    deadlocks there), or --nodes from outside. All nodes together first; where that fails or is
    slow, disjoint pairs, and then each suspect with a node that is proven good: the answer names
    the node or the link.
    """
)


def _dispatch(
    nodelist: str, expect: float | None, slow_below: float, localise: Any, join: float,
    srun_options: tuple[str, ...], program: str, **given: Any,
) -> int:  # fmt: skip
    if nodelist:
        return _outside(nodelist, srun_options, program, given)
    if spare_task(os.environ):
        return 0  # the node's first task tests all of its GPUs
    if not several_nodes(os.environ):
        assert single.callback is not None
        code: int = single.callback(**given)
        return code
    _refuse(given)
    try:
        step = read_step(os.environ)
    except StepError as error:
        raise click.UsageError(str(error)) from error
    return _inside(step, Rule(expect, slow_below), localise, join, given)


def _inside(step: Step, rule: Rule, localise: Any, join: float, given: dict[str, Any]) -> int:
    """This task's part of a run over several nodes."""
    from slurm_integration.allreduce_nodes.session import Terms, take_part

    began = time.monotonic()
    limit = given["timeout"] or TIMEOUT_S[given["depth"]]
    terms = Terms(
        deadline=began + limit, join_s=min(join, limit / 3), rule=rule, localise=localise,
        as_json=given["as_json"],
    )  # fmt: skip
    return take_part(step, _work(step, given), terms)


def _work(step: Step, given: dict[str, Any]) -> Any:
    """What this node has to offer: its GPUs, or ranks on its CPUs; or why it has nothing."""
    from slurm_integration.allreduce_nodes.torch_work import TorchWork

    settings, notes, refused = load_config(given["config"])
    own = section(settings, "allreduce")
    assert isinstance(own, AllreduceSettings)
    seen = look(
        Request(
            host_at(given["root"]), "sweep", settings, tuple(notes), given["profile"], None,
            frozenset({"allreduce-integrity"}), refused=refused, remember=False,
        )
    )  # fmt: skip
    trouble, ranks = "", 0
    gpus: tuple[GpuPlace, ...] = ()
    try:
        backend, ranks, gpus = choose(
            seen.snapshot, seen.profile.name, given["backend"], given["nproc"], given["depth"],
            os.environ,
        )  # fmt: skip
    except CannotChoose as told:
        backend, trouble = told.result.backend, told.result.reason or "nothing to test"
    return TorchWork(
        node=step.name, python=given["interpreter"] or own.interpreter or sys.executable,
        settings=own, backend=backend, local=ranks, gpus=gpus, depth=given["depth"],
        sizes=_sizes(given["sizes"]), trouble=trouble,
    )  # fmt: skip


def _outside(
    nodelist: str, srun_options: tuple[str, ...], program: str, given: dict[str, Any]
) -> int:
    """Become srun, which runs this very command on the nodes."""
    from slurm_integration.allreduce_nodes.admin import launch
    from slurm_integration.sweep.model import SweepError

    _refuse(given)
    limit = given["timeout"] or TIMEOUT_S[given["depth"]]
    try:
        launch(nodelist, [program, "allreduce", *_again(sys.argv)], srun_options, limit, os.environ)
    except SweepError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"srun could not be started: {error.strerror}") from error


def _again(argv: list[str]) -> list[str]:
    """The options of this command line but those that are only for here. Pure."""
    here = ("--nodes", "--srun", "--program")
    kept: list[str] = []
    words = iter(argv[argv.index("allreduce") + 1 :] if "allreduce" in argv else [])
    for word in words:
        if word in here:
            next(words, None)
        elif not word.startswith(tuple(f"{name}=" for name in here)):
            kept.append(word)
    return kept


def _refuse(given: dict[str, Any]) -> None:
    """Options that make sense on one node alone; and sizes that are none."""
    for name in ("paths", "plot", "seed"):
        if given.get(name):
            raise click.UsageError(f"--{name}: on one node only")
    _sizes(given["sizes"])


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(parse_size(part) for part in text.split(",") if part.strip()))
    except ValueError as error:
        raise click.UsageError(f"--sizes: {error}") from error


command = click.Command(
    "allreduce",
    params=[*single.params, *OPTIONS],
    callback=_dispatch,
    help=HELP,
    short_help="Do the GPUs of a node, or of many together, reduce right and fast enough?",
)
