"""What a node hands out of its own log, and how much of that is believed.

A node's answer travels as the `snapshot` of a report that judges nothing, because that is the one
form the sweep's transports carry and check.
"""

import math
import re

import msgspec

from healthcheck import __version__
from healthcheck.baseline import load_baseline
from healthcheck.event_log import read_since
from healthcheck.node_event import MAX_TEXT, NodeEvent
from healthcheck.report.clean import clean
from healthcheck.strict_json import decode_unbounded

FORM = 1
STAGE = "history"
MAX_EVENTS = 200_000
"""Of one node at a time; its log holds a tenth of that."""
_ID = re.compile(r"[0-9a-f]{32}")
_WORD = re.compile(r"[a-z][a-z-]{0,31}")
_BIG = 1 << 62
_TEXTS = tuple(
    field.name
    for field in msgspec.structs.fields(NodeEvent)
    if field.type == str | None and field.name != "id"
)
_NUMBERS = ("code", "count", "job_id", "uid", "nodes")


class Export(msgspec.Struct, frozen=True):
    """One node's new events. `now` is its clock (unix seconds), `profile` its node type.

    `lost` and `broken` as in healthcheck.event_log.Page.
    """

    form: int
    now: float
    events: tuple[NodeEvent, ...]
    profile: str | None = None
    lost: bool = False
    broken: int = 0


def make_export(folder: str, node: str, since: float) -> bytes:
    """The answer of the node whose state folder this is. Raises OSError where it can't be read."""
    page = read_since(folder, since)
    baseline, _ = load_baseline(folder)
    profile = baseline.profile if baseline else None
    export = Export(FORM, page.now, page.events, profile, page.lost, page.broken)
    return msgspec.json.encode(
        {
            "verdict": "unknown",
            "node": node,
            "profile": profile or "unknown",
            "stage": STAGE,
            "duration_s": 0.0,
            "notes": [],
            "outcomes": [],
            "version": __version__,
            "facts": {},
            "snapshot": export,
        }
    )


def read_export(data: bytes, node: str, now: float) -> tuple[Export, int]:
    """What `node` handed out, made fit to keep, and how many events were not believed.

    Raises ValueError for anything that is no export. `now` is the clock of whoever collects: an
    event of the future is one of now. A node speaks for itself; only of a failed job may it say
    that another node began it.
    """
    try:
        export: Export = decode_unbounded(data, Export)
    except msgspec.MsgspecError as error:
        raise ValueError(f"expected events of form {FORM}: {error}") from error
    if export.form != FORM:
        raise ValueError(f"expected events of form {FORM}, found {export.form}")
    fit = [
        kept for event in export.events[:MAX_EVENTS] if (kept := _fit(event, node, now)) is not None
    ]
    refused = len(export.events) - len(fit)
    profile = clean(export.profile, 100) if export.profile else None
    told = msgspec.structs.replace(export, events=tuple(fit), profile=profile)
    return told, refused


def _fit(event: NodeEvent, node: str, now: float) -> NodeEvent | None:
    """The event with clean, bounded fields; None where its id, kind or numbers make no sense."""
    if not (_ID.fullmatch(event.id) and _WORD.fullmatch(event.kind)):
        return None
    if not (math.isfinite(event.at) and event.at > 0):
        return None
    if any(not -_BIG < (getattr(event, name) or 0) < _BIG for name in _NUMBERS):
        return None
    texts = {
        name: clean(text, MAX_TEXT) for name in _TEXTS if (text := getattr(event, name)) is not None
    }
    whose = clean(event.node, 255) if event.kind == "job-failure" and event.root else node
    return msgspec.structs.replace(event, node=whose, at=min(event.at, now), **texts)
