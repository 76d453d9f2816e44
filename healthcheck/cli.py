"""`flightcheck`: a click group that loads a command only when it is called."""

import sys
from importlib import import_module
from typing import Any

import click

from healthcheck import __version__
from healthcheck.model import Job

COMMANDS = {
    "allreduce": "slurm_integration.commands.allreduce_nodes:command",
    "baseline": "healthcheck.commands.baseline:command",
    "check": "healthcheck.commands.check:command",
    "classify": "epilog.commands.classify:command",
    "collect": "slurm_integration.commands.collect:command",
    "completion": "healthcheck.commands.completion:command",
    "config": "healthcheck.commands.config:command",
    "doctor": "slurm_integration.commands.doctor:command",
    "drill": "slurm_integration.commands.drill:command",
    "drains": "slurm_integration.commands.drains:command",
    "explain": "healthcheck.commands.explain:command",
    "history": "slurm_integration.commands.history:command",
    "install": "slurm_integration.commands.install:command",
    "lemons": "slurm_integration.commands.lemons:command",
    "notify": "slurm_integration.commands.notify:command",
    "profile": "healthcheck.commands.profile:command",
    "report": "epilog.commands.report:command",
    "requalify": "slurm_integration.commands.requalify:command",
    "resume": "slurm_integration.commands.resume:command",
    "sandbox": "slurm_integration.commands.sandbox:command",
    "stats": "slurm_integration.commands.stats:command",
    "sweep": "slurm_integration.commands.sweep:command",
    "uninstall": "slurm_integration.commands.uninstall:command",
}
"""Command → where it lives. By dotted name, so that `check` pays for no other command's
imports and the domain does not import the packages above it."""

EX_USAGE = 64
EX_SOFTWARE = 70


JOB_READER = "slurm_integration.job_env:read_job"
"""Who understands the environment of a workload manager's hooks."""


def job_of_environment(environment: dict[str, str]) -> Job | None:
    """The job that these variables describe, or None outside of a job."""
    return _load(JOB_READER)(environment)  # type: ignore[no-any-return]


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """Imports a command when somebody asks for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands by name."""
        return sorted(COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Names of commands, without loading each for its help; options as usual."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*map(CompletionItem, names), *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded now."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        found: click.Command = _load(place)
        return found


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flightcheck")
def flightcheck() -> None:
    """Preflight and postflight node health for GPU training clusters."""


def main(argv: list[str] | None = None) -> Any:
    """Run the command line and exit.

    A usage error exits 64 and a bug of ours 70, because 0 to 3 are verdicts.
    """
    try:
        code = flightcheck.main(argv, prog_name="flightcheck", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = EX_USAGE
    except click.Abort:
        click.echo("aborted", err=True)
        code = 130
    except BrokenPipeError:
        code = 141
    except Exception:  # noqa: BLE001 - Python's own exit code for this is 1, a verdict
        import traceback

        traceback.print_exc()
        code = EX_SOFTWARE
    sys.exit(code if isinstance(code, int) else 0)
