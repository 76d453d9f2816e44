"""One rank's flight-recorder dump, whatever its release and form, as plain structs.

Forms seen: torch 2.3 to 2.13, pickle and JSON, NCCL and gloo. What a release does not write is
None; what has another type than expected is dropped, because the file belongs to a user.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from epilog.recorder.pickle_reader import Refused, loads
from healthcheck.strict_json import decode_json

MAX_FRAMES = 12
MAX_ENTRIES = 100_000
MAX_RANK = 1 << 24
_NAMED_RANK = re.compile(r"(\d{1,8})(?:\.(?:json|pkl|pickle|bin|trace|pt))?$")
_INTEGERS = re.compile(r"-?\d{1,18}")


class Entry(msgspec.Struct, frozen=True):
    """One operation a rank put into a process group.

    `sequence` counts collectives of the group, or point-to-point operations where `p2p`. `op` is
    the name without its backend ("all_reduce", "send 1->2"). `done`: it completed on this rank.
    """

    group: str
    sequence: int
    op: str
    backend: str = ""
    p2p: bool = False
    record: int = 0
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    state: str = ""
    done: bool = False
    created_at: float | None = None
    timeout_ms: int | None = None
    frames: tuple[str, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """A process group as one rank knows it. Members are global ranks, empty where not told."""

    name: str
    description: str = ""
    members: tuple[int, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """A group's last enqueued and completed collective on one rank, as the dump says."""

    enqueued: int | None
    completed: int | None


class Dump(msgspec.Struct, frozen=True):
    """What one rank's file says."""

    file: str
    rank: int
    version: str
    groups: dict[str, Group]
    status: dict[str, Status]
    entries: tuple[Entry, ...]


def rank_of(name: str) -> int | None:
    """The rank at the end of a dump's file name (`nccl_trace_rank_7`, `trace_7.json`)."""
    found = _NAMED_RANK.search(name)
    return int(found.group(1)) if found else None


def decode_dump(name: str, data: bytes, tick: Callable[[], None] | None = None) -> Dump:
    """One dump. Raises Refused where the file is none, or names no rank."""
    plain = _plain(data, tick)
    if isinstance(plain, list | tuple):
        plain = {"entries": plain}  # before version 1.1 a dump was the list of entries alone
    if not isinstance(plain, dict) or not isinstance(plain.get("entries", ()), list | tuple):
        raise Refused("no flight-recorder dump: expected a dict with entries")
    if not plain.keys() & {"entries", "pg_config", "pg_status"}:
        raise Refused("no flight-recorder dump: neither entries nor process groups in it")
    rank = _int(plain.get("rank"))
    rank = rank_of(name) if rank is None else rank
    if rank is None or not 0 <= rank < MAX_RANK:
        raise Refused("no rank: expected its number at the end of the file's name")
    raw = [e for e in plain.get("entries", ())[-MAX_ENTRIES:] if isinstance(e, dict)]
    entries = tuple(e for e in map(_entry, raw) if e is not None)
    ids = {_int(e.get("pg_id")): _name(e.get("process_group"))[0] for e in raw}
    return Dump(
        file=name,
        rank=rank,
        version=str(plain.get("version", ""))[:16],
        groups=_groups(plain.get("pg_config"), raw),
        status=_statuses(plain.get("pg_status"), ids),
        entries=entries,
    )


def _plain(data: bytes, tick: Callable[[], None] | None) -> Any:
    if data[:1] == b"\x80":
        return loads(data, tick)
    if data.lstrip()[:1] not in (b"{", b"["):
        raise Refused("neither a pickle nor JSON")
    try:
        return decode_json(data)
    except (msgspec.DecodeError, MemoryError) as error:
        raise Refused(f"not JSON: {str(error)[:120]}") from None


def _entry(raw: dict[Any, Any]) -> Entry | None:
    name, p2p = str(raw.get("profiling_name", ""))[:200], raw.get("is_p2p") is True
    backend, colon, op = name.partition(":")
    if not colon:
        backend, op = "", name
    p2p = p2p or op.startswith(("send ", "recv "))
    keys = ("p2p_seq_id",) if p2p else ("collective_seq_id", "seq_id")
    sequence = next((n for n in (_int(raw.get(key)) for key in keys) if n is not None), None)
    if sequence is None or not op:
        return None
    state = str(raw.get("state", ""))[:32]
    created = _int(raw.get("time_created_ns"))
    return Entry(
        group=_name(raw.get("process_group"))[0] or str(_int(raw.get("pg_id")) or 0),
        sequence=sequence,
        op=op,
        backend=backend,
        p2p=p2p,
        record=_int(raw.get("record_id")) or _int(raw.get("id")) or 0,
        inputs=_shapes(raw.get("input_sizes")),
        outputs=_shapes(raw.get("output_sizes")),
        input_types=_words(raw.get("input_dtypes")),
        output_types=_words(raw.get("output_dtypes")),
        state=state,
        done=_done(raw, state, backend),
        created_at=created / 1e9 if created and created > 0 else None,
        timeout_ms=_int(raw.get("timeout_ms")),
        frames=_frames(raw.get("frames")),
    )


def _done(raw: dict[Any, Any], state: str, backend: str) -> bool:
    """Whether it completed here.

    gloo leaves `state` at scheduled and only retires what is done. NCCL retires what its watchdog
    gave up on as well, so there only the state or a time of completion counts.
    """
    if state == "completed" or _int(raw.get("time_discovered_completed_ns")):
        return True
    return backend not in ("nccl", "ncclx", "rccl", "") and raw.get("retired") is True


def _groups(config: Any, raw: list[dict[Any, Any]]) -> dict[str, Group]:
    """Groups by name. gloo's configuration has one nameless entry: the default group."""
    described = dict(_name(e.get("process_group")) for e in raw)
    groups = {name: Group(name, text) for name, text in described.items()}
    if not isinstance(config, dict):
        return groups
    for key, value in config.items():
        told = value if isinstance(value, dict) else {"ranks": value}
        name = str(told.get("name") or key)[:128]
        text = str(told.get("desc") or "")[:128]
        if not name:
            name = next((n for n, d in described.items() if d == "default_pg"), "0")
        text = text or described.get(name, "")
        groups[name] = Group(name, text, _ranks(told.get("ranks")))
    return groups


def _statuses(raw: Any, ids: dict[int | None, str]) -> dict[str, Status]:
    """Status by group name. Dumps key it by the process's own number of the group."""
    found: dict[str, Status] = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if not isinstance(value, dict):
            continue
        number = _int(key)
        name = ids.get(number) if number is not None else str(key)
        if name is not None:
            found[name] = Status(
                _positive(value.get("last_enqueued_collective")),
                _positive(value.get("last_completed_collective")),
            )
    return found


def _name(value: Any) -> tuple[str, str]:
    """`("0", "default_pg")` → name and description; versions before 2.0 write the name alone."""
    if isinstance(value, list | tuple) and value:
        return str(value[0])[:128], str(value[1])[:128] if len(value) > 1 else ""
    return (value[:128], "") if isinstance(value, str) else ("", "")


def _ranks(value: Any) -> tuple[int, ...]:
    """Members: a list, or the text of one ("[0, 1]", as torch writes it)."""
    if isinstance(value, str):
        numbers = [int(n) for n in _INTEGERS.findall(value[: 1 << 20])]
    elif isinstance(value, list | tuple):
        numbers = [n for n in map(_int, value) if n is not None]
    else:
        numbers = []
    return tuple(sorted({n for n in numbers if 0 <= n < MAX_RANK}))


def _shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(
        tuple(n for n in map(_int, shape[:32]) if n is not None)
        for shape in value[:1024]
        if isinstance(shape, list | tuple)
    )


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(v)[:32] for v in value[:1024]) if isinstance(value, list | tuple) else ()


def _frames(value: Any) -> tuple[str, ...]:
    """`name file:line`, innermost first as the dump has them."""
    return tuple(
        f"{str(f.get('name', '?'))[:120]} {str(f.get('filename', '?'))[:240]}:{f.get('line', '?')}"
        for f in (value[:MAX_FRAMES] if isinstance(value, list | tuple) else ())
        if isinstance(f, dict)
    )


def _positive(value: Any) -> int | None:
    number = _int(value)
    return number if number is not None and number >= 0 else None


def _int(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _INTEGERS.fullmatch(value):
        return int(value)
    return None
