"""`flightcheck allreduce`: do the GPUs of this node reduce right, and fast enough?"""

import os
import sys
from typing import NamedTuple

import click
import msgspec

from healthcheck.allreduce.choose import CannotChoose, choose
from healthcheck.allreduce.history import load_history, remember, with_usual
from healthcheck.allreduce.launch import Child
from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult
from healthcheck.allreduce.paths import PATHS
from healthcheck.allreduce.progress import Progress, progress
from healthcheck.allreduce.run import run, run_paths, start
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.allreduce.shapes import make_plan
from healthcheck.allreduce.sizes import parse_size
from healthcheck.config import CONFIG_PATH, load_config, section
from healthcheck.host import Host, host_at, recorded
from healthcheck.model import Report, Snapshot
from healthcheck.runner import Request, Result, replay, state_folder
from healthcheck.runner import run as look

CHECKS = frozenset({"allreduce-integrity", "allreduce-bandwidth"})
TIMEOUT_S = {"quick": 120.0, "full": 900.0}


class Options(NamedTuple):
    """What was asked for on the command line."""

    backend: str
    nproc: int | None
    sizes: tuple[int, ...]
    depth: str
    paths: tuple[str, ...]
    timeout_s: float
    seed: int | None


@click.command("allreduce")
@click.option(
    "--backend",
    type=click.Choice(["auto", "nccl", "gloo"]),
    default="auto",
    show_default=True,
    help="NCCL on GPUs, gloo on CPUs; auto never falls back from GPUs to CPUs.",
)
@click.option("--nproc", type=click.IntRange(1, 256), help="Ranks (default: one a GPU, or 4).")
@click.option("--sizes", metavar="1M,64M,1G", default="", help="Message sizes to time.")
@click.option("--quick", "depth", flag_value="quick", default="quick", help="Seconds (default).")
@click.option("--full", "depth", flag_value="full", help="All operations, types and sizes.")
@click.option("--paths", metavar="A,B", default="", help=f"One by one: {','.join(PATHS)}.")
@click.option("--timeout", type=click.FloatRange(1, 7200), help="Seconds for the whole test.")
@click.option("--interpreter", metavar="PYTHON", help="A Python that has torch.")
@click.option("--seed", type=click.IntRange(0, (1 << 64) - 1), help="Repeat an earlier run's data.")
@click.option("--plot", metavar="FILE", help="Bus bandwidth over message size, as PNG or SVG.")
@click.option("--profile", metavar="NAME", help="Node type (default: by the hardware seen).")
@click.option(
    "--config",
    metavar="FILE",
    envvar="FLIGHTCHECK_CONFIG",
    default=CONFIG_PATH,
    show_default=True,
    help="Configuration.",
)
@click.option(
    "--root",
    metavar="DIR",
    envvar="FLIGHTCHECK_ROOT",
    help="A folder that stands for the machine when its hardware is looked at.",
)
@click.option("--json", "as_json", is_flag=True, help="Verdict, findings and facts on one line.")
def command(
    backend: str, nproc: int | None, sizes: str, depth: str, paths: str, timeout: float | None,
    interpreter: str | None, seed: int | None, plot: str | None, profile: str | None, config: str,
    root: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Reduce known numbers over all GPUs, compare every bit, and measure the bandwidth.

    Loads the GPUs: not on a node where a job runs, except inside that job. Drains nothing.
    Exit code: 0 go, 1 degraded, 2 no-go, 3 unknown.
    """
    options = Options(
        backend=backend,
        nproc=nproc,
        sizes=_sizes(sizes),
        depth=depth,
        paths=_paths(paths),
        timeout_s=timeout or TIMEOUT_S[depth],
        seed=seed,
    )
    _plot_possible(plot)
    settings, notes, refused = load_config(config)
    own = section(settings, "allreduce")
    assert isinstance(own, AllreduceSettings)
    python = interpreter or own.interpreter or sys.executable
    show = progress(quiet=as_json)
    # torch takes longer to import than this node to look at.
    child = start(python, own.env)
    try:
        request = Request(
            host_at(root), "sweep", settings, tuple(notes), profile, None, CHECKS,
            refused=refused, remember=False,
        )  # fmt: skip
        seen = look(request)
        result = _fly(child, seen, options, own, python, show)
    except BaseException:
        child.end()
        raise
    finally:
        show.close()
    report, result = _judge(seen.snapshot, result, request)
    if plot:
        _plot(plot, result, seen)
    _print(report, result, as_json)
    return report.verdict.exit_code


def _fly(
    child: Child,
    seen: Result,
    options: Options,
    settings: AllreduceSettings,
    python: str,
    show: Progress,
) -> AllreduceResult:
    """Run it, and path by path where asked for."""
    deadline = child.started + options.timeout_s
    node = seen.snapshot
    try:
        backend, ranks, gpus = choose(
            node, seen.profile.name, options.backend, options.nproc, options.depth, os.environ
        )
    except CannotChoose as told:
        child.end()
        return told.result
    if options.paths and backend != "nccl":
        child.end()
        raise click.UsageError("--paths: only NCCL has paths to choose; this node runs gloo")
    plan = make_plan(
        backend, options.depth, ranks, gpus=gpus, sizes=options.sizes, seed=options.seed,
        timeout_s=settings.collective_timeout_s, node=node.node,
    )  # fmt: skip
    show.plan(plan)
    result = run(child, plan, deadline, watch=show.watch)
    if not options.paths or result.end is not AllreduceEnd.OK:
        return result
    ports = [f"{hca.name}:{port.number}" for hca in node.hcas or () for port in hca.ports]
    runs = run_paths(
        lambda: start(python, settings.env), plan, options.paths, deadline, adapters=ports,
        watch=show.watch,
    )  # fmt: skip
    return msgspec.structs.replace(result, paths=runs)


def _judge(
    node: Snapshot, result: AllreduceResult, request: Request
) -> tuple[Report, AllreduceResult]:
    """The two checks on the result, which then becomes part of this node's history."""
    folder = state_folder(request.host, request.config)
    history, note = load_history(folder)
    result = with_usual(result, history)
    notes = [*request.notes, *([note] if note else [])]
    judged = replay(
        msgspec.structs.replace(node, allreduce=result), request._replace(notes=tuple(notes))
    ).report
    passed = result.end is AllreduceEnd.OK and not judged.findings()
    if result.members and _may_write(request.host, folder):
        told = remember(folder, history, result, passed)
        if told:
            judged = msgspec.structs.replace(judged, notes=(*judged.notes, told))
    took = round(result.duration_s, 3)
    return msgspec.structs.replace(judged, duration_s=took), result


def _may_write(host: Host, folder: str) -> bool:
    """Whether this user keeps the node's history: its owner, not everybody's job."""
    if os.path.isdir(folder):
        return os.access(folder, os.W_OK)
    return os.geteuid() == 0 or recorded(host)


def _print(report: Report, result: AllreduceResult, as_json: bool) -> None:
    from healthcheck.allreduce.report import to_json, to_table

    if as_json:
        click.echo(to_json(report, result))
        return
    from healthcheck.report.text import to_text

    click.echo(to_table(result))
    click.echo()
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    click.echo(to_text(report, colour=colour))


def _plot_possible(path: str | None) -> None:
    from healthcheck.allreduce.plot import cannot_plot

    why = cannot_plot(path) if path else None
    if why:
        raise click.UsageError(f"--plot: {why}")


def _plot(path: str, result: AllreduceResult, seen: Result) -> None:
    from healthcheck.allreduce.plot import save_plot

    figure = seen.profile.checks.get("allreduce-bandwidth", {}).get("busbw_gb_s")
    reference = {parse_size(size): gb for size, gb in figure.value.items()} if figure else {}
    try:
        save_plot(result, path, reference if result.backend == "nccl" else {})
    except OSError as error:
        click.echo(f"flightcheck: --plot {path}: {error.strerror}", err=True)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(parse_size(part) for part in text.split(",") if part.strip()))
    except ValueError as error:
        raise click.UsageError(f"--sizes: {error}") from error


def _paths(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in PATHS:
            known = "; ".join(f"{path.name}: {path.title}" for path in PATHS.values())
            raise click.UsageError(f"--paths: no path is called {name!r}. Known: {known}")
    return names
