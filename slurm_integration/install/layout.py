"""What should lie on this machine, given the site's Slurm. Pure, but for reading our templates."""

import fnmatch
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import jinja2
import msgspec

from slurm_integration.doctor.model import Hook
from slurm_integration.hook import FAIL_JOB
from slurm_integration.install.model import Item, Manifest

DATA = Path(__file__).parents[2] / "healthcheck/data/flightcheck.toml"
SYSTEMD, TMPFILES, LOGROTATE = "/etc/systemd/system", "/etc/tmpfiles.d", "/etc/logrotate.d"
RECORD_DIR = "/run/flightcheck/tasks"
FIRST = "99-flightcheck"
"""Slurm runs the scripts of a glob in reverse order, 99 before 50: ours comes first, so that its
reason wins before the prolog, and so that the site's epilog has not cleaned up yet."""
SITE = 50
HOOKS = {"Prolog": "prolog", "Epilog": "epilog", "TaskProlog": "task-prolog",
         "HealthCheckProgram": "health"}  # fmt: skip
"""Entry of slurm.conf → our wrapper, `NAME.sh`."""
UNITS = ("flightcheck-collect.service", "flightcheck-collect.timer",
         "flightcheck-requalify.service", "flightcheck-requalify.timer")  # fmt: skip


class Site(msgspec.Struct, frozen=True):
    """Where things are. `hooks`: what Slurm calls today; None where that is not known.

    `bin`: the folder of our commands; `python`: the interpreter that they run in. `plugin`: the
    SPANK plugin, or "". `slurm_conf`: where it is not Slurm's own default, which a
    HealthCheckProgram is not told. `includes`: the patterns that plugstack.conf includes.
    """

    prefix: str
    bin: str
    python: str
    state_dir: str
    hooks: tuple[Hook, ...] | None = None
    plugin: str = ""
    slurm_conf: str = ""
    includes: tuple[str, ...] = ()

    @property
    def home(self) -> str:
        """Our folder below the prefix."""
        return f"{self.prefix}/flightcheck"

    def wrapper(self, hook: str) -> str:
        """The path of our wrapper for an entry of slurm.conf."""
        return f"{self.home}/{HOOKS[hook]}.sh"

    def folder(self, hook: str) -> str:
        """Where a site's script and ours lie beside each other."""
        return f"{self.home}/{HOOKS[hook]}.d"

    def of(self, name: str) -> list[Hook]:
        """What Slurm calls today for an entry."""
        return [hook for hook in self.hooks or () if hook.name == name]

    def ours(self, hook: Hook) -> bool:
        """Whether an entry leads to us already, in one way or another."""
        if hook.pattern.startswith(self.home + "/"):
            return True
        wanted = f"flightcheck-{HOOKS[hook.name]}"
        return any(p.name == wanted for script in hook.scripts for p in script.programs)


def items(site: Site, manifest: Manifest) -> tuple[Item, ...]:
    """All files and links. Links that an earlier install made stay, whatever Slurm says today."""
    render = _renderer(site)
    found = [
        Item(site.wrapper(hook), render(f"{name}.sh.j2"), mode=0o755)
        for hook, name in HOOKS.items()
    ]
    found.append(
        Item("/etc/flightcheck/flightcheck.toml", DATA.read_text(encoding="utf-8"), seed=True)
    )
    found += [Item(f"{SYSTEMD}/{unit}", render(f"{unit}.j2")) for unit in UNITS]
    found.append(Item(f"{TMPFILES}/flightcheck.conf", render("tmpfiles.conf.j2")))
    found.append(Item(f"{LOGROTATE}/flightcheck", render("logrotate.j2")))
    place = plugstack_place(site)
    if site.plugin and place:
        found.append(Item(place, plugstack_line(site) + "\n"))
    links = {item.path: item for hook in ("Prolog", "Epilog") for item in _beside(site, hook)}
    for entry in manifest.entries:
        if entry.kind == "link" and entry.path not in links:
            links[entry.path] = Item(entry.path, "", "link")
    return (*found, *links.values())


def _renderer(site: Site) -> Callable[[str], str]:
    env = jinja2.Environment(  # noqa: S701 - scripts and configuration, not HTML
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters["quote"] = shlex.quote
    facts = {"site": site, "bin": site.bin, "python": site.python, "fail_job": FAIL_JOB}
    return lambda name: env.get_template(name).render(facts)


def _beside(site: Site, name: str) -> list[Item]:
    """Links with which our hook runs beside the site's own."""
    foreign = [hook for hook in site.of(name) if not site.ours(hook)]
    if not foreign or len(foreign) < len(site.of(name)):
        return []
    globbed = next((hook for hook in foreign if hook.globbed), None)
    if globbed is not None:
        place = name_in_glob(globbed.pattern)
        return [Item(place, site.wrapper(name), "link")] if place else []
    folder = site.folder(name)
    theirs = [
        Item(f"{folder}/{max(SITE - n, 0):02d}-site", hook.pattern, "link")
        for n, hook in enumerate(foreign)
    ]
    return [Item(f"{folder}/{FIRST}", site.wrapper(name), "link"), *theirs]


def name_in_glob(pattern: str) -> str:
    """Where a script of ours has to lie for a pattern to find it; "" where none fits."""
    folder, _, last = pattern.rpartition("/")
    if set(folder) & set("*?["):
        return ""
    fit = (name for name in (FIRST, f"{FIRST}.sh") if fnmatch.fnmatchcase(name, last))
    return next((f"{folder}/{name}" for name in fit), "")


def plugstack_place(site: Site) -> str:
    """A file of ours that plugstack.conf includes; "" where it includes none."""
    for pattern in site.includes:
        folder, _, last = pattern.rpartition("/")
        if not set(folder) & set("*?[") and fnmatch.fnmatchcase("flightcheck.conf", last):
            return os.path.normpath(f"{folder}/flightcheck.conf")
    return ""


def plugstack_line(site: Site) -> str:
    """`optional`: a plugin that does not load must not take sbatch with it."""
    return f"optional {site.plugin} record_dir={RECORD_DIR}"
