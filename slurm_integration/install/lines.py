"""The lines that slurm.conf lacks. Pure."""

import msgspec

from slurm_integration.doctor.rules.prolog_flags import mended, missing
from slurm_integration.doctor.rules.requeue import NOHOLD, mended_scheduler
from slurm_integration.doctor.slurm_conf import SlurmConf
from slurm_integration.install.layout import FIRST, Site, name_in_glob, plugstack_line
from slurm_integration.install.layout import plugstack_place as place

INTERVAL_S = 300


class Advice(msgspec.Struct, frozen=True):
    """Lines for slurm.conf and plugstack.conf, and what a line can't say."""

    slurm: tuple[str, ...] = ()
    plugstack: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def advise(site: Site, slurm: SlurmConf | None) -> Advice:
    """What to add by hand. With Slurm's configuration unknown, all of it."""
    slurm = slurm or SlurmConf("nothing", {})
    lines: list[str] = []
    notes: list[str] = []
    for hook in ("Prolog", "Epilog"):
        _globbed_hook(site, hook, lines, notes)
    for hook in ("TaskProlog", "HealthCheckProgram"):
        _single_hook(site, hook, lines, notes)
    set_here = any(line.startswith("HealthCheckProgram=") for line in lines)
    if slurm.seconds("HealthCheckInterval") == 0 and (set_here or slurm.all("HealthCheckProgram")):
        lines.append(f"HealthCheckInterval={INTERVAL_S}")
    if missing(slurm):
        lines.append(mended(slurm))
    if not slurm.has("SchedulerParameters", NOHOLD):
        lines.append(mended_scheduler(slurm))
    extra = (plugstack_line(site),) if site.plugin and not place(site) else ()
    return Advice(tuple(lines), extra, tuple(notes))


def _globbed_hook(site: Site, name: str, lines: list[str], notes: list[str]) -> None:
    """Prolog and Epilog: Slurm expands a pattern, so a site's script stays beside ours."""
    today = site.of(name)
    if any(site.ours(hook) for hook in today):
        return
    if not today:
        lines.append(f"{name}={site.wrapper(name)}")
        return
    globbed = next((hook for hook in today if hook.globbed), None)
    if globbed is None:
        lines.append(f"{name}={site.folder(name)}/*")
        theirs = ", ".join(hook.pattern for hook in today)
        notes.append(
            f"{name}: your {theirs} goes on running, as a link in {site.folder(name)}. Slurm runs "
            f"such a folder in reverse order: {FIRST} first."
        )
    elif name_in_glob(globbed.pattern):
        notes.append(
            f"{name}={globbed.pattern} finds ours as {FIRST}, from the next job on and without a "
            "change of slurm.conf."
        )
    else:
        notes.append(
            f"{name}={globbed.pattern}: no name of ours fits it. Link {site.wrapper(name)} to a "
            "name that does, one that sorts last: Slurm runs them in reverse order."
        )


def _single_hook(site: Site, name: str, lines: list[str], notes: list[str]) -> None:
    """TaskProlog and HealthCheckProgram: Slurm has room for one."""
    today = site.of(name)
    if any(site.ours(hook) for hook in today):
        return
    if not today:
        lines.append(f"{name}={site.wrapper(name)}")
        return
    notes.append(
        f"{name}={today[-1].pattern} stays, Slurm has room for one: let it end with the line "
        f"{site.wrapper(name)}"
    )
