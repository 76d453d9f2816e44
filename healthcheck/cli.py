"""`flightcheck`: a click group that loads a command only when it is called."""

import sys
from importlib import import_module
from typing import Any

import click

from healthcheck import __version__

COMMANDS = {
    "check": "healthcheck.commands.check:command",
}
"""Command → where it lives. By dotted name, so that `check` pays for no other command's
imports and the domain does not import the packages above it."""

EX_USAGE = 64
EX_SOFTWARE = 70


class LazyGroup(click.Group):
    """Imports a command when somebody asks for it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands by name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded now."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        found: click.Command = getattr(import_module(module), name)
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
    except Exception:
        import traceback

        traceback.print_exc()
        code = EX_SOFTWARE
    sys.exit(code if isinstance(code, int) else 0)
