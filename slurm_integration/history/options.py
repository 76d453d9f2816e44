"""Options that all commands of the history share."""

import calendar
import re
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from healthcheck.config import CONFIG_PATH, Config, load_config, state_dir_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_integration.history.store import Store

EXIT_NO_DATABASE = 3
_UNITS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,6})([hdw])")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
EXTRA = "SQLAlchemy is not installed here: pip install 'flightcheck[fleet]' on the admin host"


class Since(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`30d`, `12h`, `2w` before now, or a day `2026-01-31` (UTC); unix seconds."""

    name = "SPAN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Unix seconds."""
        if isinstance(value, float):
            return value
        span, date = _SPAN.fullmatch(value), _DATE.fullmatch(value)
        if span:
            return max(0.0, time.time() - int(span[1]) * _UNITS[span[2]])
        if date:
            year, month, day = (int(part) for part in date.groups())
            if 1 <= month <= 12 and 1 <= day <= calendar.monthrange(max(year, 1), month)[1]:
                return float(max(0, calendar.timegm((year, month, day, 0, 0, 0, 0, 0, 0))))
        return self.fail(f"expected 30d, 12h, 2w or 2026-01-31, found {value!r}", param, ctx)


def since_option(default: str) -> Callable[[Any], Any]:
    """`--since`."""
    return click.option(
        "--since", type=Since(), default=default, show_default=True, metavar="SPAN",
        help="How far back: 12h, 30d, 8w or a day such as 2026-01-31.",
    )  # fmt: skip


def database_options(command: Any) -> Any:
    """`--db` and `--config`."""
    command = click.option(
        "--config", metavar="FILE", envvar="FLIGHTCHECK_CONFIG", default=CONFIG_PATH,
        show_default=True, help="Configuration.",
    )(command)  # fmt: skip
    return click.option(
        "--db", metavar="URL", envvar="FLIGHTCHECK_DB", default="",
        help="sqlite:///PATH or postgresql://USER@HOST/NAME; default: history_db of the "
        "configuration, else history.db in the state folder.",
    )(command)  # fmt: skip


def database_url(db: str, config: Config) -> str:
    """The option's URL, the configuration's, or a file in the state folder."""
    told: str = db or getattr(config, "history_db", None) or ""
    return told or f"sqlite:///{state_dir_here(config)}/history.db"


@contextmanager
def opened(name: str, db: str, config_path: str) -> "Iterator[Store]":
    """The history for the command called `name`; exit code 3 and one line where it fails."""
    config, notes, _ = load_config(config_path)
    for note in notes:
        click.echo(f"flightcheck {name}: note: {note}", err=True)
    try:
        from slurm_integration.history.schema import HistoryError
        from slurm_integration.history.store import Store
    except ModuleNotFoundError as error:
        if error.name != "sqlalchemy":
            raise
        stop(name, EXTRA)
    try:
        with Store(database_url(db, config)) as store:
            yield store
    except HistoryError as error:
        stop(name, str(error))


def stop(name: str, text: str) -> NoReturn:
    """One line on standard error, exit code 3."""
    click.echo(f"flightcheck {name}: {text}", err=True)
    raise SystemExit(EXIT_NO_DATABASE)
