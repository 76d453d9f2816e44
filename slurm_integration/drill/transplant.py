"""A fault, taken from a simulated node and put into what a real one shows. Pure.

The difference between the simulated node's snapshot before and after the fault is carried over:
its GPUs, adapters, switches and supplies are taken for the real ones in the same place, counters
grow by what they grew there, everything else becomes what it became there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from healthcheck.baseline import GPU_COUNTERS, NVLINK_COUNTERS
from healthcheck.model import PciDevice, Snapshot

IDENTITIES = (("first", "second"), ("bus_id",), ("path",), ("name",), ("number",), ("index",))
"""What tells the elements of a list apart, whichever of these they have."""
COUNTERS = frozenset((*GPU_COUNTERS, *NVLINK_COUNTERS, "corrected", "uncorrected"))
COUNTER_TABLES = frozenset(("counters", "hw_counters", "correctable", "nonfatal", "fatal"))
LEFT_OUT = frozenset(
    ("node", "taken_at", "version", "boot_id", "uptime_s", "job", "baseline", "kernel_log")
)
"""Of a snapshot: what tells about the moment and not about the hardware."""
NOISE = frozenset(("seconds", "calls"))


class NotHereError(Exception):
    """This node has nothing that the fault could hit; the text says what it lacks."""


def transplant(healthy: Snapshot, broken: Snapshot, real: Snapshot) -> Snapshot:
    """`real` with the fault that makes `broken` of `healthy`. Raises NotHereError."""
    names = same_places(healthy, real)
    before, after = _renamed(healthy, names), _renamed(broken, names)
    there = _plain(real)
    for field in before.keys() - LEFT_OUT:
        there[field] = _carried(before[field], after[field], there[field], (field,))
    there["kernel_log"] = _log(healthy, after, broken, real)
    return msgspec.convert(there, Snapshot)


def same_places(healthy: Snapshot, real: Snapshot) -> dict[str, str]:
    """The simulated node's names → the real one's, place by place."""
    pairs: list[tuple[str, str]] = []
    ours, theirs = _pci(healthy), _pci(real)
    for kind in dict.fromkeys(device.kind for device in ours.values()):
        pairs += zip(_of_kind(ours, kind), _of_kind(theirs, kind), strict=False)
    for mine, yours in zip(_hcas(healthy), _hcas(real), strict=False):
        pairs.append((mine[0], yours[0]))
        if mine[1] and yours[1]:
            pairs.append((mine[1], yours[1]))
    for gpu, other in zip(healthy.gpus or (), real.gpus or (), strict=False):
        pairs.append((gpu.bus_id, other.bus_id))
    for bus_id, other_id in list(pairs):
        pairs += zip(_above(ours, bus_id), _above(theirs, other_id), strict=False)
    for field in ("power_supplies", "memory_controllers"):
        mine_of, yours_of = getattr(healthy, field) or (), getattr(real, field) or ()
        pairs += [(a.name, b.name) for a, b in zip(mine_of, yours_of, strict=False)]
    # The last word counts: an adapter's or a GPU's own place is surer than a kind's order.
    return dict(pairs)


def _plain(value: Any) -> Any:
    """Dictionaries and lists; a struct's tuples would stay tuples with to_builtins."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _pci(node: Snapshot) -> dict[str, PciDevice]:
    return {device.bus_id: device for device in node.pci or ()}


def _of_kind(devices: Mapping[str, PciDevice], kind: str) -> list[str]:
    return sorted(bus_id for bus_id, device in devices.items() if device.kind == kind)


def _above(devices: Mapping[str, PciDevice], bus_id: str) -> Iterator[str]:
    """Switches and root ports on the way up."""
    while bus_id in devices and (up := devices[bus_id].parent) is not None:
        yield up
        bus_id = up


def _hcas(node: Snapshot) -> list[tuple[str, str | None]]:
    def place(name: str) -> tuple[str, int]:
        stem = name.rstrip("0123456789")
        return stem, int(name[len(stem) :] or 0)

    return sorted(
        ((hca.name, hca.bus_id) for hca in node.hcas or () if not hca.virtual),
        key=lambda one: place(one[0]),
    )


def _renamed(node: Snapshot, names: Mapping[str, str]) -> dict[str, Any]:
    """The snapshot as plain data that speaks of the real node's parts."""
    whole = dict(names)
    for old, new in names.items():
        if re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", old):
            # The driver's log names a GPU without its function.
            whole.setdefault(old.rpartition(".")[0], new.rpartition(".")[0])
    pattern = re.compile(
        r"(?<!\w)(?:"
        + "|".join(map(re.escape, sorted(whole, key=len, reverse=True)))
        + r")(?![\w:])"
    )

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda found: whole[found[0]], value) if whole else value
        if isinstance(value, dict):
            return {walk(key): walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    named = walk(_plain(node))
    assert isinstance(named, dict)
    return named


def _carried(before: Any, after: Any, real: Any, path: tuple[str, ...]) -> Any:
    """`real`, changed as `before` was changed to `after`."""
    if before == after or path[-1] in NOISE:
        return real
    if isinstance(before, dict) and isinstance(after, dict):
        return _carried_table(before, after, _there(real, dict, path), path)
    if isinstance(before, list) and isinstance(after, list):
        key = _identity(before, after)
        if key is not None:
            return _carried_list(before, after, _there(real, list, path), (path, key))
        kept = [one for one in _there(real, list, path) if one in after or one not in before]
        return [*kept, *(one for one in after if one not in before and one not in kept)]
    counts = path[-1] in COUNTERS or (len(path) > 1 and path[-2] in COUNTER_TABLES)
    if counts and isinstance(before, int) and isinstance(after, int) and isinstance(real, int):
        return real + after - before
    return after


def _carried_table(
    before: dict[str, Any], after: dict[str, Any], real: dict[str, Any], path: tuple[str, ...]
) -> dict[str, Any]:
    done = dict(real)
    for key in before.keys() | after.keys():
        if key not in after:
            done.pop(key, None)
        elif key not in before:
            grown = path[-1] in COUNTER_TABLES and isinstance(after[key], int)
            done[key] = done.get(key, 0) + after[key] if grown else after[key]
        elif before[key] != after[key]:
            done[key] = _carried(before[key], after[key], done.get(key), (*path, key))
    return done


def _carried_list(
    before: list[Any], after: list[Any], real: list[Any], where: tuple[tuple[str, ...], Any]
) -> list[Any]:
    path, key = where
    old, new = ({_name(one, key): one for one in some} for some in (before, after))
    have = {_name(one, key): one for one in real}
    for name in old.keys() | new.keys():
        if old.get(name) == new.get(name):
            continue
        if name in old and name not in have:
            shown = " ".join(map(str, name))
            raise NotHereError(f"no {path[-1]} like {shown} was seen on this node")
        if name not in new:
            del have[name]
        elif name not in old:
            have[name] = new[name]
        else:
            have[name] = _carried(old[name], new[name], have[name], path)
    return list(have.values())


def _there(real: Any, kind: type, path: Sequence[str]) -> Any:
    if not isinstance(real, kind):
        raise NotHereError(f"{'.'.join(path)} was not measured on this node")
    return real


def _identity(*lists: list[Any]) -> tuple[str, ...] | None:
    """The first of IDENTITIES that all elements have, each its own."""
    rows = [row for rows in lists for row in rows]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    for key in IDENTITIES:
        names = [[_name(row, key) for row in rows if set(key) <= row.keys()] for rows in lists]
        whole = sum(map(len, names)) == len(rows) and not any((None,) in some for some in names)
        if whole and all(len(set(some)) == len(some) for some in names):
            return key
    return None


def _name(row: Mapping[str, Any], key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[part] for part in key)


def _log(healthy: Snapshot, after: dict[str, Any], broken: Snapshot, real: Snapshot) -> Any:
    """The real kernel log with the fault's lines behind it, as long ago as they were there."""
    if healthy.kernel_log is None or broken.kernel_log is None:
        return _plain(real.kernel_log)
    first = healthy.kernel_log.next_sequence
    new = [one for one in after["kernel_log"]["events"] if one["sequence"] >= first]
    if real.kernel_log is None:
        if new:
            raise NotHereError("the kernel log was not read on this node")
        return None
    log = _plain(real.kernel_log)
    shift = (real.uptime_s or 0.0) - (broken.uptime_s or 0.0)
    for number, event in enumerate(new):
        until = event["until_s"]
        event["sequence"] = log["next_sequence"] + number
        event["uptime_s"] += shift
        event["until_s"] = until + shift if until is not None else None
    log["events"] = [*log["events"], *new]
    log["next_sequence"] += len(new)
    return log
