"""`flightcheck install`: wrappers, timers and configuration, where the site wants them."""

import os
from typing import Any

import click
import msgspec

DEFAULT_CONF = "/etc/slurm/slurm.conf"
EXIT_KEPT, EXIT_FAILED = 1, 2


@click.command("install")
@click.option("--prefix", metavar="DIR", default="/etc/slurm", show_default=True,
              help="Slurm's configuration; the wrappers go to DIR/flightcheck.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@click.option("--diff", "show_diff", is_flag=True, help="Show the text of every change.")
@click.option("--force", is_flag=True,
              help="Replace files that were changed by hand; a copy of yours is kept.")  # fmt: skip
@click.option("--root", metavar="DIR", default="", help="A folder that stands for the machine: "
              "an image, a package.")  # fmt: skip
@click.option("--bin", "bin_dir", metavar="DIR", default="",
              help="Where flightcheck's commands are; default: those of this one.")  # fmt: skip
@click.option("--spank", metavar="FILE", default="", help="The SPANK plugin; default: searched.")
@click.option("--slurm-conf", metavar="FILE",
              help="The site's; default: that at the prefix, else what scontrol says.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Files that are as they should be, too.")
def command(prefix: str, root: str, **given: Any) -> int:
    """Put wrappers for Slurm's hooks, timers and a commented configuration in place.

    What is there already stays: a file that was changed by hand is kept and its difference shown,
    a site's own prolog and epilog go on running beside ours. slurm.conf is never edited; the lines
    that it lacks are printed. It can be run again at any time, also after it was interrupted, and
    `flightcheck uninstall` takes back what it did.

    Exit code: 0 all is in place, 1 files that differ were kept, 2 it could not be done.
    """
    from slurm_integration.install.model import InstallError

    try:
        return _install(folder_option("--prefix", prefix), root_option(root), **given)
    except InstallError as error:
        click.echo(f"flightcheck install: {error}", err=True)
        return EXIT_FAILED


def _install(
    prefix: str, root: str, *, dry_run: bool, show_diff: bool, force: bool, bin_dir: str,
    spank: str, slurm_conf: str | None, verbose: bool,
) -> int:  # fmt: skip
    from slurm_integration.install.apply import apply, refuse_untrusted
    from slurm_integration.install.disk import Disk
    from slurm_integration.install.layout import items
    from slurm_integration.install.lines import advise
    from slurm_integration.install.manifest import read_manifest
    from slurm_integration.install.model import Do
    from slurm_integration.install.plan import plan
    from slurm_integration.install.site import known_slurm, read_site
    from slurm_integration.install.text import advice_text, diffs, steps_text

    disk = Disk(root)
    slurm, trouble = known_slurm(prefix, slurm_conf, disk.root)
    site = read_site(prefix, bin_dir, spank, slurm, disk.root)
    told = slurm_conf or os.environ.get("SLURM_CONF", "")
    if told and told != DEFAULT_CONF:
        site = msgspec.structs.replace(site, slurm_conf=os.path.abspath(told))
    manifest = read_manifest(disk, site.home)
    todo = plan(items(site, manifest), manifest, disk.look, disk.missing_folders, force=force)
    say(steps_text(todo, verbose=verbose))
    say(diffs(todo, everything=show_diff))
    if dry_run:
        refuse_untrusted(disk, todo)
        click.echo("nothing to do" if todo.idle else "nothing was done (dry run)")
    else:
        say(apply(disk, site.home, manifest, todo))
        click.echo(
            "nothing to do" if todo.idle else f"installed; {disk.at(site.home)} has the list"
        )
    conf = (slurm.path if slurm else "") or f"{prefix}/slurm.conf"
    stack = (slurm.text("PlugStackConfig") if slurm else "") or f"{prefix}/plugstack.conf"
    say(advice_text(advise(site, slurm), conf, stack, trouble))
    kept = [step for step in todo.of(Do.KEPT) if step.item and not step.item.seed]
    return EXIT_KEPT if kept and not dry_run else 0


def say(lines: list[str]) -> None:
    """Lines on standard output; click leaves colours out of a pipe."""
    for line in lines:
        click.echo(line)


def folder_option(name: str, path: str) -> str:
    """A path without a slash at its end. Raises UsageError for a relative one."""
    if not path.startswith("/") or ".." in path.split("/") or any(map(str.isspace, path)):
        raise click.UsageError(f"{name}: expected an absolute path without spaces, found {path!r}")
    return os.path.normpath(path)


def root_option(path: str) -> str:
    """The folder of --root, or "". Raises UsageError where there is none."""
    if path and not os.path.isdir(path):
        raise click.UsageError(f"--root: expected a folder, found nothing at {path!r}")
    return os.path.abspath(path) if path else ""
