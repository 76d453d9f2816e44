"""torchrun's error files: `…/attempt_N/LOCAL_RANK/error.json`, one a worker that raised.

Written by ErrorHandler.record_exception of torch.distributed.elastic (torch 1.9 to 2.13):
{"message": {"message": "ValueError: …", "extraInfo": {"py_callstack": "Traceback …", "timestamp":
"1796098259"}}}; "message" is plain text where a signal ended the worker.
"""

import re
from typing import Any

import msgspec

from healthcheck.strict_json import decode_json

MAX_BYTES = 1 << 20
_PLACE = re.compile(r"attempt_(\d{1,6})/(\d{1,6})/[^/]+\Z")


class WorkerError(msgspec.Struct, frozen=True):
    """One worker's last words. `text`: the lines it would have printed, for the scanner."""

    text: str
    attempt: int = 0
    local_rank: int | None = None
    at: float | None = None


def parse_error_file(path: str, data: bytes) -> WorkerError | None:
    """The error, or None where the file holds something else. Never raises."""
    try:
        plain = decode_json(data[:MAX_BYTES])
    except msgspec.DecodeError:
        return None
    told: Any = plain.get("message") if isinstance(plain, dict) else None
    extra: Any = None
    if isinstance(told, dict):
        extra, told = told.get("extraInfo"), told.get("message")
    if not isinstance(told, str):
        return None
    extra = extra if isinstance(extra, dict) else {}
    stack = extra.get("py_callstack")
    place = _PLACE.search(path)
    return WorkerError(
        text=stack if isinstance(stack, str) and stack.strip() else told,
        attempt=int(place[1]) if place else 0,
        local_rank=int(place[2]) if place else None,
        at=_time(extra.get("timestamp")),
    )


def _time(value: Any) -> float | None:
    """Whole seconds since 1970, as text."""
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 11:
        return None
    return float(value) if 1e9 < float(value) < 1e11 else None
