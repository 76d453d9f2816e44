"""The site's configuration: which checks run, with which limits, and what a verdict does."""

from datetime import date
from typing import Annotated, Any, Literal

import msgspec

CONFIG_PATH = "/etc/flightcheck/flightcheck.toml"
STATE_DIR = "/var/lib/flightcheck"

Policy = Literal["drain", "requeue", "alert", "pass"]

_CLEAN = r"[^\x00-\x1f\x7f]"
AbsolutePath = Annotated[
    str, msgspec.Meta(pattern=rf"^/{_CLEAN}*\Z", description="an absolute path such as /scratch")
]
Name = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._@:\\-]*\Z",
        description="a name of letters, digits and . _ @ : -",
    ),
]


class CheckSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[checks.NAME]`: what the site says about one check.

    `limits` override the profile's. `waive_until`: findings are told but judge nothing up to and
    including that day. `action`: what a failing finding of this check does, in place of drain.
    """

    enabled: bool = True
    waive_until: date | None = None
    waive_reason: str | None = None
    action: Policy | None = None
    limits: dict[str, Any] = {}


class DrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[drain]`: how many nodes may be drained, and how Slurm is reached.

    `max_nodes` and `max_percent` of all nodes (at least one) bound the drains within `window_s`
    seconds, `max_held_percent` those of any age. `without_slurm`: where scontrol is missing, hangs
    or refuses, the budget cannot be known; `fail-job` exits non-zero, and Slurm then drains the
    node past every budget, for sites that prefer that. `scontrol` None: searched in the usual
    folders. `timeout_s` bounds each call; a failing node first waits up to `jitter_s`, so that a
    thousand do not call at once. `seats_dir`: a folder of root's that all nodes share, which makes
    a drain one read and one update, also where the controller is slow.
    """

    max_nodes: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 4
    max_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 5.0
    max_held_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 20.0
    window_s: Annotated[int, msgspec.Meta(ge=60, le=30 * 86_400)] = 3600
    without_slurm: Literal["run-job", "fail-job"] = "run-job"
    scontrol: AbsolutePath | None = None
    timeout_s: Annotated[float, msgspec.Meta(ge=0.1, le=60)] = 2.0
    jitter_s: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.5
    seats_dir: AbsolutePath | None = None


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`/etc/flightcheck/flightcheck.toml`. Every default is safe on a first install.

    `dry_run`: say what would be drained, drain nothing. `on_unknown`: what the prolog does where
    the node could not be judged. `deadline_s` bounds a whole prolog, below Slurm's "Prolog hung".
    `metrics_dir`: where node_exporter's textfile collector reads; None writes none. `history_db`:
    the fleet's history on the admin host, `sqlite:///PATH` or `postgresql://…`.
    """

    dry_run: bool = True
    on_unknown: Literal["run", "requeue"] = "run"
    profile: Name = "auto"
    profile_dir: AbsolutePath = "/etc/flightcheck/profiles"
    state_dir: AbsolutePath = STATE_DIR
    deadline_s: Annotated[float, msgspec.Meta(ge=1, le=55)] = 8.0
    mounts: tuple[AbsolutePath, ...] = ()
    services: tuple[Name, ...] = ()
    metrics_dir: AbsolutePath | None = None
    history_db: str | None = None
    drain: DrainSettings = DrainSettings()
    checks: dict[str, CheckSettings] = {}
    allreduce: dict[str, Any] = {}
    epilog: dict[str, Any] = {}
    requalify: dict[str, Any] = {}
    task_prolog: dict[str, Any] = {}
    preflight: dict[str, Any] = {}
    notify: dict[str, Any] = {}


SECTIONS = {
    "allreduce": "healthcheck.allreduce.settings:AllreduceSettings",
    "epilog": "epilog.settings:EpilogSettings",
    "notify": "slurm_integration.notify.settings:NotifySettings",
    "preflight": "prolog.preflight_settings:PreflightSettings",
    "requalify": "slurm_integration.requalify.rules:Rules",
    "task_prolog": "prolog.task_settings:TaskPrologSettings",
}
"""Tables whose settings belong to another room: where their struct is. By dotted name, so that a
prolog pays for none of them and the domain does not import the packages above it."""


def state_dir_here(config: Config) -> str:
    """The state folder as a command on this machine finds it: below FLIGHTCHECK_ROOT if set."""
    import os

    return os.environ.get("FLIGHTCHECK_ROOT", "") + config.state_dir


def section_type(name: str) -> type[msgspec.Struct]:
    """The struct of a table in SECTIONS."""
    from importlib import import_module

    module, _, kind = SECTIONS[name].partition(":")
    found: type[msgspec.Struct] = getattr(import_module(module), kind)
    return found


def section(config: Config, name: str) -> msgspec.Struct:
    """The settings in a table of SECTIONS. Raises msgspec.ValidationError where it is wrong."""
    return msgspec.convert(getattr(config, name), section_type(name))


def load_config(path: str = CONFIG_PATH, *, verify: bool = True) -> tuple[Config, list[str], bool]:
    """(configuration, notes, refused) from a file; a missing file means the defaults.

    A refused file means the defaults too: the notes say what is wrong where, and the verdict is
    then at least unknown and never drains. `verify=False` leaves the names and limits of checks
    to a later `check_faults`, and the tables of SECTIONS to whoever uses them.
    """
    from healthcheck.strict_toml import Refused, convert, read_toml

    try:
        document = read_toml(path, private=True)
        config = convert(document, Config)
        if verify:
            told = [*section_faults(config, path), *check_faults(config, path)]
            if told:
                raise Refused(*told)
    except FileNotFoundError:
        return Config(), [], False
    except Refused as refusal:
        last = f"{path} is refused: built-in defaults are in force and nothing will be drained"
        return Config(), [*refusal.notes, last], True
    return config, [], False


def check_faults(config: Config, path: str = CONFIG_PATH) -> list[str]:
    """Notes for `[checks.NAME]` tables that name no check, or limits that the check refuses.

    Costs microseconds where all is well and the checks are loaded.
    """
    from healthcheck.registry import load_checks

    if not config.checks:
        return []
    checks, broken = load_checks()
    for name, settings in config.checks.items():
        declared = checks.get(name)
        if declared is None:
            # A check whose module does not load is reported by the run; its table is no typo.
            if not broken:
                break
        elif settings.limits and not _convertible(settings.limits, declared.limits):
            break
    else:
        return []
    from healthcheck.check_tables import config_faults

    return config_faults(config, path, checks, lenient=bool(broken))


def section_faults(config: Config, path: str = CONFIG_PATH) -> list[str]:
    """Notes for the tables of SECTIONS that their rooms refuse."""
    used = [name for name in SECTIONS if getattr(config, name)]
    if not used:
        return []
    from healthcheck.check_tables import table_faults

    return table_faults(path, {name: (getattr(config, name), section_type(name)) for name in used})


def _convertible(limits: dict[str, Any], kind: type[msgspec.Struct]) -> bool:
    """Whether these limits convert: each, and together unless the profile must add some."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    try:
        for name, value in limits.items():
            msgspec.convert(value, fields[name].type)
        if all(name in limits for name, field in fields.items() if field.required):
            msgspec.convert(limits, kind)
    except (KeyError, msgspec.ValidationError):
        return False
    return True
