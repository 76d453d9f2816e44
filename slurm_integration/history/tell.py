"""What an admin host does to nodes, told to the history: drains by a sweep, resumes.

Nothing of this is worth failing for: where the history can't be written, the caller gets a line
to show and goes on.
"""

import time
from collections.abc import Sequence

from healthcheck.config import Config
from healthcheck.node_event import NodeEvent, cut, new_id
from slurm_integration.history.options import EXTRA, database_url


def admin_events(
    kind: str, nodes: Sequence[str], message: str, outcome: str, now: float, stage: str
) -> list[NodeEvent]:
    """One event a node. `kind`: resume or drain; `stage`: the command that did it. Pure but for
    ids.
    """
    return [
        NodeEvent(
            new_id(now), round(now, 3), node, kind,
            stage=stage, outcome=outcome, message=cut(message),
        )
        for node in nodes
    ]  # fmt: skip


def tell_history(
    config: Config,
    kind: str,
    nodes: Sequence[str],
    message: str,
    *,
    outcome: str = "",
    stage: str,
    db: str = "",
) -> str | None:
    """Keep it in the history; a note where that could not be done. Never raises."""
    if not nodes:
        return None
    try:
        from slurm_integration.history.schema import HistoryError
        from slurm_integration.history.store import Store
    except ModuleNotFoundError:
        return f"not kept in the history: {EXTRA}"
    try:
        with Store(database_url(db, config)) as store:
            store.add(admin_events(kind, nodes, message, outcome, time.time(), stage))
    except HistoryError as error:
        return f"not kept in the history: {error}"
    return None
