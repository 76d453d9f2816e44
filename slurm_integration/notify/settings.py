"""`[notify]` of the configuration."""

from typing import Annotated, Literal

import msgspec

Kind = Literal[
    "drain", "requeue", "alert", "resume", "job-failure", "verdict", "finding", "cleared"
]
Word = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=4096, pattern=r"^[^\x00]*\Z", description="a word"),
]


class NotifySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[notify]`. Nobody is told on a first install, but the journal.

    `on_event`: a program and its arguments, which gets each event as one JSON object on standard
    input and has `timeout_s` seconds. Exit code 0: it was handed over; any other: it is tried
    again at the next look, for a day. `events`: which kinds. `log`: where decisions are written
    besides slurmd's log.
    """

    on_event: tuple[Word, ...] = ()
    timeout_s: Annotated[float, msgspec.Meta(ge=0.5, le=30)] = 10.0
    events: tuple[Kind, ...] = ("drain", "requeue", "alert", "resume", "job-failure")
    log: Literal["auto", "journald", "syslog", "off"] = "auto"


def settings_of(table: object) -> tuple[NotifySettings, str]:
    """The settings; where the table is refused nobody is told, and why."""
    try:
        return msgspec.convert(table or {}, NotifySettings), ""
    except msgspec.ValidationError as error:
        return NotifySettings(log="off"), f"[notify] is refused: {error}; nobody is told"
