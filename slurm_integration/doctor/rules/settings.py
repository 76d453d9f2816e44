"""flightcheck's own configuration."""

from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_node, advice, wrong


@about_node("config-refused")
def config_refused(facts: Facts) -> Iterator[Complaint]:
    """The configuration is accepted."""
    settings = facts.settings
    told_already = settings.loose and any("only root can change" in n for n in settings.notes)
    if settings.refused and not told_already:
        yield wrong(
            settings.path, "refused: " + "; ".join(settings.notes[:-1] or settings.notes),
            "the built-in defaults are in force, and nothing is drained",
            "mend it, then: flightcheck config check",
        )  # fmt: skip


@about_node("config-owner")
def config_owner(facts: Facts) -> Iterator[Complaint]:
    """Nobody but root can change the configuration."""
    settings = facts.settings
    if settings.loose:
        yield wrong(
            settings.path, "; ".join(settings.loose),
            "whoever can change it can drain nodes or keep them from being drained; the hooks "
            "refuse such a file", f"chown root:root {settings.path}; chmod 644 {settings.path}",
        )  # fmt: skip


@about_node("dry-run")
def dry_run(facts: Facts) -> Iterator[Complaint]:
    """Verdicts have consequences."""
    settings = facts.settings
    if settings.config.dry_run and not settings.refused:
        yield advice(
            settings.path if settings.exists else f"{settings.path} (not there)",
            "dry_run is on", "sick nodes are told, and get jobs all the same",
            f"dry_run = false in {settings.path}, once the verdicts of some days look right",
        )  # fmt: skip


@about_node("history")
def history(facts: Facts) -> Iterator[Complaint]:
    """The history's database can be used, where the configuration names one."""
    if facts.history_problem:
        yield wrong(
            "history_db", facts.history_problem,
            "nothing of the fleet's past is kept: no lemons, no statistics",
            f"mend the database, or history_db in {facts.settings.path}",
        )  # fmt: skip
