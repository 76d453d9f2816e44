"""`flightcheck uninstall`: takes back what `install` put there, and nothing else."""

from typing import TYPE_CHECKING

import click

from slurm_integration.commands.install import EXIT_FAILED, folder_option, root_option, say

if TYPE_CHECKING:
    from slurm_integration.install.model import Plan


@click.command("uninstall")
@click.option("--prefix", metavar="DIR", default="/etc/slurm", show_default=True,
              help="As it was given to install.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option("--root", metavar="DIR", default="", help="A folder that stands for the machine.")
@click.option("--slurm-conf", metavar="FILE",
              help="The site's; default: that at the prefix, else what scontrol says.")  # fmt: skip
@click.option("--force", is_flag=True, help="Even where slurm.conf still calls what would go.")
def command(
    prefix: str, dry_run: bool, root: str, slurm_conf: str | None, force: bool
) -> int:  # fmt: skip
    """Take back what `flightcheck install` put there.

    A file that was changed since is kept, and said. A folder goes if we made it and nothing else is
    in it. The package, the configuration that you wrote and the nodes' memory stay.

    Where slurm.conf still calls a wrapper nothing is done: a hook that is gone drains every node.

    Exit code: 0 done or nothing to do, 2 it was not done.
    """
    from slurm_integration.install.model import InstallError

    try:
        return _uninstall(
            folder_option("--prefix", prefix), root_option(root), dry_run, slurm_conf, force
        )
    except InstallError as error:
        click.echo(f"flightcheck uninstall: {error}", err=True)
        return EXIT_FAILED


def _uninstall(prefix: str, root: str, dry_run: bool, slurm_conf: str | None, force: bool) -> int:
    from slurm_integration.install.apply import plan_removal, remove
    from slurm_integration.install.disk import Disk
    from slurm_integration.install.manifest import read_manifest
    from slurm_integration.install.text import steps_text

    disk, home = Disk(root), f"{prefix}/flightcheck"
    manifest = read_manifest(disk, home)
    if not manifest.entries and not manifest.folders:
        click.echo(f"nothing of flightcheck's is installed at {disk.at(home)}")
        return 0
    todo = plan_removal(disk, manifest)
    say(steps_text(todo, verbose=True))
    told = [] if force else _refusal(prefix, slurm_conf, disk.root, todo)
    if told:
        for line in told:
            click.echo(f"flightcheck uninstall: {line}", err=True)
        return 0 if dry_run else EXIT_FAILED
    if dry_run:
        click.echo("nothing was done (dry run)")
        return 0
    for folder in remove(disk, home, manifest, todo):
        click.echo(f"kept    {disk.at(folder)} (something of yours is in it)")
    click.echo("uninstalled; then: systemctl daemon-reload")
    return 0


def _refusal(prefix: str, slurm_conf: str | None, root: str, todo: "Plan") -> list[str]:
    """Why nothing is removed; [] where Slurm calls none of it, or there is no Slurm here."""
    from slurm_integration.doctor.reading.hooks import read_hooks
    from slurm_integration.install.site import known_slurm, no_slurm
    from slurm_integration.install.usage import still_called

    slurm, trouble = known_slurm(prefix, slurm_conf, root)
    if slurm is None:
        if root or no_slurm():
            return []
        return [
            f"nothing was removed: whether Slurm still calls it is not known ({trouble}). "
            "--slurm-conf FILE says where to look, --force removes it all the same"
        ]
    called = still_called(read_hooks(slurm, root), todo)
    if not called:
        return []
    return [
        "nothing was removed: a hook that is gone drains every node. Take this out of "
        f"{slurm.path or 'slurm.conf'}, then scontrol reconfigure, or say --force:",
        *(f"    {line}" for line in called),
    ]
