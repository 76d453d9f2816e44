"""`flightcheck completion SHELL`: what makes the shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    bash: `flightcheck completion bash > /etc/bash_completion.d/flightcheck`; zsh: as `_flightcheck`
    into a folder of $fpath; fish: into ~/.config/fish/completions/flightcheck.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root().command
    click.echo(kind(root, {}, "flightcheck", "_FLIGHTCHECK_COMPLETE").source())
