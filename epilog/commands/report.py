"""`flightcheck report`: why a job failed, as its epilog found out."""

import click

from epilog.settings import settings_of
from epilog.state import kept_jobs, read_report
from healthcheck.config import CONFIG_PATH, load_config, state_dir_here

MOST_LISTED = 20


@click.command("report")
@click.argument("job_id", type=click.IntRange(1), required=False, metavar="JOBID")
@click.option("--json", "as_json", is_flag=True, help="report.json as it was kept.")
@click.option(
    "--config",
    metavar="FILE",
    envvar="FLIGHTCHECK_CONFIG",
    default=CONFIG_PATH,
    show_default=True,
    help="Configuration, which names the state folder.",
)
@click.option("--state-dir", metavar="DIR", help="Look here instead.")
def command(job_id: int | None, as_json: bool, config: str, state_dir: str | None) -> int:
    """Show again why job JOBID failed; without a number, list the jobs that are kept.

    The report is kept on the job's first node, or in [epilog] shared_dir where one is set. Exit
    code 0, or 64 where no report of that job is kept here.
    """
    folder = state_dir or _folder(config)
    if job_id is None:
        jobs = kept_jobs(folder)
        for number in jobs[:MOST_LISTED]:
            click.echo(str(number))
        if not jobs:
            click.echo(f"no reports in {folder}", err=True)
        return 0
    try:
        data = read_report(folder, job_id, "report.json" if as_json else "report.txt")
    except FileNotFoundError:
        raise click.UsageError(
            f"no report of job {job_id} in {folder}. Reports are kept of failed jobs only, on the "
            "job's first node (`sacct -j JOBID -o nodelist`), or in [epilog] shared_dir."
        ) from None
    except OSError as error:
        raise click.UsageError(f"{folder}: {error.strerror}; reports are root's to read") from error
    click.echo(data.decode("utf-8", "replace"), nl=False)
    return 0


def _folder(path: str) -> str:
    config, notes, _ = load_config(path)
    for note in notes:
        click.echo(f"flightcheck report: {note}", err=True)
    settings, refused = settings_of(getattr(config, "epilog", None))
    for note in refused:
        click.echo(f"flightcheck report: {note}", err=True)
    return settings.shared_dir or state_dir_here(config)
