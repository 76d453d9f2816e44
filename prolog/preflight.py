"""What a job asked of its preflight: `sbatch --preflight=…` or `--comment=preflight=…`.

The words are the user's: a fixed list of values, and the site's policy says whether `off`
counts. Imported by every prolog, so nothing is imported here.
"""

from typing import TYPE_CHECKING

from healthcheck.config import Config
from healthcheck.model import Job

if TYPE_CHECKING:
    from prolog.preflight_settings import PreflightSettings

OPTION = "SPANK_FLIGHTCHECK_PREFLIGHT"
COMMENT = "preflight="
VALUES = ("off", "quick", "full")


def wish(job: Job | None) -> str | None:
    """What the job asked for, as it wrote it; None for most jobs. The option beats the comment."""
    if job is None:
        return None
    option = job.spank.get(OPTION)
    if option or COMMENT not in (job.comment or ""):
        return option or None
    words = (job.comment or "").replace(",", " ").replace(";", " ").split()
    return next((w.removeprefix(COMMENT) for w in words if w.startswith(COMMENT)), None)


def settle(asked: str, job: Job, config: Config) -> tuple[Config | None, str]:
    """The configuration for this look, None for no look at all; and one line about it.

    `quick` lets the all_reduce test be no longer than its quick form, `full` runs the full one,
    whatever `[allreduce]` says. `off` counts where `[preflight]` lets this account or partition.
    """
    if asked not in VALUES:
        told = f"expected off, quick or full, found {asked[:32]!r}; it is ignored"
        return config, f"preflight: {told}"
    if asked != "off":
        return _with_mode(config, asked, job), f"preflight {asked}, as the job asked"
    settings, trouble = _settings(config)
    if trouble:
        return config, f"preflight off is not granted: {trouble}"
    account, partition = job.account or "", job.partition or ""
    if _is_one_of(account, settings.off_accounts):
        return None, f"preflight off, as account {account} may ask: nothing was looked at"
    if _is_one_of(partition, settings.off_partitions):
        return None, f"preflight off, as partition {partition} lets it: nothing was looked at"
    return config, (
        f"preflight off was asked for, and account {account or '-'} in partition "
        f"{partition or '-'} may not ([preflight] off_accounts, off_partitions)"
    )


def _is_one_of(name: str, names: tuple[str, ...]) -> bool:
    return "*" in names or (bool(name) and name in names)


def _with_mode(config: Config, asked: str, job: Job) -> Config:
    import msgspec

    table = dict(config.allreduce)
    if asked == "full":
        table |= {"mode": "full", "partitions": {}, "max_age_s": 0}
    else:
        partitions = table.get("partitions")
        by_partition = partitions if isinstance(partitions, dict) else {}
        mode = by_partition.get(job.partition or "", table.get("mode", "off"))
        table |= {"mode": "quick" if mode == "full" else mode, "partitions": {}}
        if not config.allreduce:
            return config
    return msgspec.structs.replace(config, allreduce=table)


def _settings(config: Config) -> "tuple[PreflightSettings, str]":
    import msgspec

    from prolog.preflight_settings import PreflightSettings

    try:
        return msgspec.convert(config.preflight, PreflightSettings), ""
    except msgspec.ValidationError as error:
        return PreflightSettings(), f"[preflight] is refused: {error}"
