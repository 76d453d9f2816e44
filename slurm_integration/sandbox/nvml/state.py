"""Writes down a `SimulatedNvml` for the C library to read."""

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from slurm_integration.sandbox.nvml.model import (
    SimulatedFault,
    SimulatedGpu,
    SimulatedNvLink,
    SimulatedNvml,
)

STATE_NAME = "libnvidia-ml.state"
"""The name of the state file, beside the library."""

MAX_GPUS, MAX_LINKS, MAX_PROCESSES, MAX_FIELDS, MAX_FAULTS = 32, 36, 64, 64, 256
MAX_TEXT = 95
"""Bytes of a text: state.h's SIM_TEXT without its end."""

_BUS_ID = re.compile(r"(?:[0-9a-fA-F]{1,8}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}\.[0-9a-fA-F]")
_LISTS = frozenset({"nvlinks", "processes", "fields"})
_LINK_FIELDS = tuple(field.name for field in msgspec.structs.fields(SimulatedNvLink))
_GPU_FIELDS = tuple(f.name for f in msgspec.structs.fields(SimulatedGpu) if f.name not in _LISTS)


def render_state(nvml: SimulatedNvml) -> str:
    """The state file's text.

    Raises:
        ValueError: something the library could not take; the message names it.
    """
    lines = ["flightcheck-nvml 1", *_driver(nvml), f"gpus {_at_most(nvml.gpus, MAX_GPUS, 'GPUs')}"]
    uuids = [gpu.uuid for gpu in nvml.gpus]
    if len(set(uuids)) != len(uuids):
        raise ValueError(f"every GPU needs a uuid of its own, found {uuids}")
    for index, gpu in enumerate(nvml.gpus):
        lines += _gpu(f"gpu.{index}", gpu)
    for pair in nvml.p2p:
        one, two = (_gpu_index(gpu, nvml) for gpu in pair.gpus)
        lines.append(f"p2p.{one}.{two}.{pair.capability} {_below(256, pair.status, 'status')}")
    _at_most(nvml.faults, MAX_FAULTS, "faults")
    lines += [_fault(fault, nvml) for fault in nvml.faults]
    return "\n".join([*lines, "end", ""])


def write_state(path: Path, nvml: SimulatedNvml) -> None:
    """Replaces the state file at one stroke: a reader sees the old or the new one.

    Raises:
        ValueError: as `render_state`; the old file stays.
        OSError: the folder cannot be written.
    """
    data = render_state(nvml).encode()
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        # Nodes are read by whoever runs a job on them.
        Path(temporary).chmod(0o644)
        os.utime(temporary, ns=(_newer_than(path), _newer_than(path)))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _newer_than(path: Path) -> int:
    # The kernel stamps files with a clock of some milliseconds, and inode
    # numbers are reused: without this a quick second change could look the same.
    try:
        before = path.stat().st_mtime_ns
    except FileNotFoundError:
        before = 0
    return max(time.time_ns(), before + 1)


def _driver(nvml: SimulatedNvml) -> Iterator[str]:
    yield from _line("driver.version", nvml.driver_version)
    yield from _line("driver.nvml_version", nvml.nvml_version)
    yield from _line("driver.cuda_version", nvml.cuda_version)


def _gpu(prefix: str, gpu: SimulatedGpu) -> Iterator[str]:
    if not gpu.uuid:
        raise ValueError(f"{prefix} needs a uuid")
    if not _BUS_ID.fullmatch(gpu.bus_id):
        raise ValueError(f"{prefix}: expected a bus_id such as 0000:1b:00.0, found {gpu.bus_id!r}")
    for name in _GPU_FIELDS:
        yield from _line(f"{prefix}.{name}", getattr(gpu, name))
    yield f"{prefix}.nvlinks {_at_most(gpu.nvlinks, MAX_LINKS, 'NVLinks of a GPU')}"
    for name in _LINK_FIELDS:
        values = [getattr(link, name) for link in gpu.nvlinks]
        yield from _links(f"{prefix}.nvlink", name, values)
    _at_most(gpu.processes, MAX_PROCESSES, "processes of a GPU")
    for process in gpu.processes:
        kind = "graphics" if process.graphics else "compute"
        name = _text(process.name)
        pid = _below(2**31 - 1, process.pid, "process id")
        yield f"{prefix}.process {kind} {pid} {_number(process.memory_bytes)} {name}"
    _at_most(gpu.fields, MAX_FIELDS, "field overrides of a GPU")
    for field in gpu.fields:
        ids = [_below(2**31 - 1, n, "field or scope id") for n in (field.field_id, field.scope_id)]
        key = f"{prefix}.field.{ids[0]}.{ids[1]}"
        if field.return_code:
            yield f"{key} return {_below(65536, field.return_code, 'nvmlReturn')}"
        else:
            yield f"{key} {_below(7, field.value_type, 'value type')} {_number(field.value)}"


def _links(prefix: str, name: str, values: list[int | str | None]) -> Iterator[str]:
    """What most links share in one line, then the exceptions."""
    if not values:
        return
    common = Counter(values).most_common(1)[0][0]
    yield from _line(f"{prefix}.*.{name}", common)
    for index, value in enumerate(values):
        if value != common:
            # "-" takes away what the line for all links gave.
            yield from _line(f"{prefix}.{index}.{name}", "-" if value in {None, ""} else value)


def _fault(fault: SimulatedFault, nvml: SimulatedNvml) -> str:
    symbol = _text(fault.symbol)
    if not symbol or any(c in symbol for c in " ."):
        raise ValueError(f"a fault's symbol is a C name or a glob over them, found {symbol!r}")
    gpu = "*" if fault.gpu is None else str(_gpu_index(fault.gpu, nvml))
    words = [f"call.{symbol}.{gpu}"]
    if fault.delay_ms or fault.effect == "continue":
        words.append(f"delay_ms {_below(86_400_001, fault.delay_ms, 'delay')}")
    if fault.effect == "return":
        words.append(f"return {_below(65536, fault.return_code, 'nvmlReturn')}")
    elif fault.effect != "continue":
        words.append(fault.effect)
    for key, calls in (("after", fault.after), ("times", fault.times)):
        if calls:
            words.append(f"{key} {_below(10**9, calls, 'number of calls')}")
    return " ".join(words)


def _line(key: str, value: int | str | None) -> Iterator[str]:
    if value is None or value == "":
        return
    yield f"{key} {_text(value) if isinstance(value, str) else _number(value)}"


def _number(value: int) -> int:
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"expected a number of 64 bits, found {value}")
    return int(value)


def _below(limit: int, value: int, what: str) -> int:
    if not 0 <= value < limit:
        raise ValueError(f"expected a {what} from 0 to {limit - 1}, found {value}")
    return int(value)


def _text(value: str) -> str:
    if len(value.encode()) > MAX_TEXT or not value.isprintable() or value != value.strip():
        raise ValueError(
            f"expected at most {MAX_TEXT} bytes of printable text without spaces around it, "
            f"found {value!r}"
        )
    return value


def _gpu_index(index: int, nvml: SimulatedNvml) -> int:
    if not 0 <= index < len(nvml.gpus):
        raise ValueError(f"there is no GPU {index}: this machine has {len(nvml.gpus)}")
    return index


def _at_most(items: tuple[object, ...], limit: int, what: str) -> int:
    if len(items) > limit:
        raise ValueError(f"the library takes at most {limit} {what}, found {len(items)}")
    return len(items)
