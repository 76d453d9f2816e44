"""Handing events over to the site's program: at least once, in order, and never too many at once.

The node's event log is the spool, and a small file beside it says how far it was handed over. A
program that fails gets the same event again at the next look; a storm becomes MOST events and
one that counts the rest.
"""

import fcntl
import os
import time
from collections.abc import Sequence

import msgspec

from healthcheck.command import run_command
from healthcheck.event_log import read_since, replace_file
from healthcheck.node_event import NodeEvent
from healthcheck.own_folder import check_folder
from healthcheck.strict_json import decode_json
from slurm_integration.notify.settings import NotifySettings
from slurm_integration.notify.words import is_news, line

FILE = "notified.json"
LOCK = "notify.lock"
MOST = 20
BUDGET_S = 30.0
"""For all of one look: slurmd gives a health program a minute."""
PATIENCE_S = 86_400.0
FIRST_S = 3600.0
"""How far back the first look goes: not the whole log of a node that was never asked."""
KEPT = 512


class Handed(msgspec.Struct, frozen=True):
    """Everything before `since` (unix seconds) is done, and of what is later `ids`."""

    since: float = 0.0
    ids: tuple[str, ...] = ()


def deliver(folder: str, settings: NotifySettings, now: float) -> list[str]:
    """Hand over what is new in the event log of `folder`; notes about what did not work.

    Raises nothing: an unreachable receiver must not hold or fail a look.
    """
    if not settings.on_event:
        return []
    try:
        check_folder(folder)
        lock = os.open(
            f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError as error:
        return [f"notify: {folder}/{LOCK}: {error.strerror}; nobody was told"]
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _deliver(folder, settings, now)
    except BlockingIOError:
        return []
    except OSError as error:
        return [f"notify: {error.strerror}; nobody was told"]
    finally:
        os.close(lock)


def send(event: NodeEvent, settings: NotifySettings) -> str | None:
    """Hand one event to the program; None, or why it did not take it."""
    data = msgspec.json.encode({**msgspec.to_builtins(event), "text": line(event)})
    program = settings.on_event[0]
    try:
        done = run_command(list(settings.on_event), settings.timeout_s, stdin=data + b"\n")
    except (OSError, ValueError) as error:
        return f"{program}: {getattr(error, 'strerror', None) or error}"
    if done.code == 0:
        return None
    if done.code is None:
        return f"{program}: no end within {settings.timeout_s:g} s"
    words = done.stderr.strip().splitlines()
    return f"{program}: exit code {done.code}" + (f" ({words[-1][:120]})" if words else "")


def _deliver(folder: str, settings: NotifySettings, now: float) -> list[str]:
    handed = _load(folder, now)
    page = read_since(folder, handed.since)
    news = [
        event
        for event in page.events
        if event.id not in handed.ids
        and is_news(event, settings.events)
        and event.at > now - PATIENCE_S
    ]
    taken, note = _send_all(news, settings)
    left = len(news) - len(taken)
    # While something waits the place stays, and ids tell what has been handed over behind it.
    after = Handed(handed.since if left else page.now, (*handed.ids, *taken)[-KEPT:])
    trouble = replace_file(f"{folder}/{FILE}", msgspec.json.encode(after))
    notes = [f"{note}; {left} events wait"] if note else []
    return [f"notify: {text}" for text in (*notes, trouble) if text]


def _send_all(news: Sequence[NodeEvent], settings: NotifySettings) -> tuple[list[str], str]:
    """Ids of what was taken, and why the rest was not."""
    until = time.monotonic() + BUDGET_S
    taken: list[str] = []
    for event in _few(news):
        if time.monotonic() > until:
            return taken, "the time of this look is up"
        trouble = send(event, settings)
        if trouble:
            return taken, trouble
        taken += [event.id] if event.kind != "more" else [rest.id for rest in news[MOST - 1 :]]
    return taken, ""


def _few(news: Sequence[NodeEvent]) -> list[NodeEvent]:
    """At most MOST events; the last one then counts the rest."""
    if len(news) <= MOST:
        return list(news)
    last, rest = news[-1], len(news) - MOST + 1
    more = NodeEvent(
        f"{last.id}-more", last.at, last.node, "more", count=rest,
        message=f"{rest} more events; see `flightcheck history {last.node}`",
    )  # fmt: skip
    return [*news[: MOST - 1], more]


def _load(folder: str, now: float) -> Handed:
    try:
        with open(f"{folder}/{FILE}", "rb") as file:
            handed = decode_json(file.read(1 << 20), Handed)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return Handed(now - FIRST_S)
    # A clock that was set back must not silence everything until it has caught up.
    return handed if handed.since <= now + 60 else Handed(now - FIRST_S, handed.ids)
