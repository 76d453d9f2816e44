"""The site's configuration: which checks run, with which limits, and what a verdict does."""

from datetime import date
from typing import Annotated, Any, Literal

import msgspec

CONFIG_PATH = "/etc/flightcheck/flightcheck.toml"
STATE_DIR = "/var/lib/flightcheck"

Policy = Literal["drain", "requeue", "alert", "pass"]


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

    The budget is the smaller of `max_nodes` and `max_percent` of all nodes (at least one) within
    `window_s` seconds. `ledger`: a folder on a shared file system that counts drains in place of
    Slurm itself.
    """

    max_nodes: Annotated[int, msgspec.Meta(ge=0)] = 8
    max_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 5.0
    window_s: Annotated[int, msgspec.Meta(ge=60)] = 3600
    ledger: str | None = None
    scontrol: str | None = None
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=60)] = 2.0


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`/etc/flightcheck/flightcheck.toml`. Every default is safe on a first install.

    `dry_run`: say what would be drained, drain nothing. `on_unknown`: what the prolog does where
    the node could not be judged. `deadline_s` bounds a whole prolog, below Slurm's "Prolog hung".
    """

    dry_run: bool = True
    on_unknown: Literal["run", "requeue", "drain"] = "run"
    profile: str = "auto"
    profile_dir: str = "/etc/flightcheck/profiles"
    state_dir: str = STATE_DIR
    deadline_s: Annotated[float, msgspec.Meta(ge=1, le=55)] = 8.0
    mounts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    drain: DrainSettings = DrainSettings()
    checks: dict[str, CheckSettings] = {}
