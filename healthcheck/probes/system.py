"""Main memory, its error counters, the clock and the kernel's modules.

In the prolog: /proc/meminfo, /proc/modules, a listing of /sys/module and two files a memory
controller. The clock is left out there: it only ever warns, a warning holds no job, and calling
adjtimex costs an import of ctypes (5 ms).
"""

from typing import Any

from healthcheck.host import Host
from healthcheck.reading import Ask

EDAC = "/sys/devices/system/edac/mc"
MODULES = "/sys/module"
MAX_MODULE_TEXT = 1 << 18
MAX_DIMMS = 64


def read(ask: Ask) -> dict[str, Any]:
    """`memory`, `memory_controllers`, `clock`, `modules`; each fails alone."""
    readers = {
        "memory": _memory,
        "memory_controllers": _controllers,
        "modules": _modules,
        "clock": _clock,
    }
    facts: dict[str, Any] = {}
    problems: dict[str, Any] = {}
    if ask.plan.stage == "prolog":
        del readers["clock"]
        problems["clock"] = _problem("skipped", "the clock is not read in the prolog")
    for field, reader in readers.items():
        ask.progress.note(f"read {field}")
        try:
            facts[field] = reader(ask.host)
        except FileNotFoundError as error:
            problems[field] = _problem("absent", _told(error))
        except PermissionError as error:
            problems[field] = _problem("denied", _told(error))
        except (OSError, ValueError) as error:
            problems[field] = _problem("failed", _told(error))
    return {**facts, "problems": problems}


def parse_meminfo(text: str) -> dict[str, int | None]:
    """Total and available memory in bytes. Raises ValueError without a believable MemTotal."""
    kib: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            value, _, unit = rest.strip().partition(" ")
            count = parse_count(value)
            if count is not None and unit.strip() == "kB":
                kib[name] = count
    if not kib.get("MemTotal"):
        raise ValueError("expected a line 'MemTotal: N kB' in /proc/meminfo, found none")
    available = kib.get("MemAvailable")
    return {
        "total_bytes": kib["MemTotal"] * 1024,
        "available_bytes": None if available is None else available * 1024,
    }


def parse_modules(text: str) -> tuple[set[str], set[str]]:
    """(live, not live) names of /proc/modules: `NAME SIZE REFS USERS STATE ADDRESS`.

    A module that is still loading, or hangs while it unloads, serves nobody.
    """
    live: set[str] = set()
    other: set[str] = set()
    for line in text.splitlines():
        columns = line.split()
        if len(columns) >= 5 and columns[1].isdigit():
            (live if columns[4] == "Live" else other).add(columns[0])
    return live, other


def parse_count(text: str) -> int | None:
    """An error counter, or None for anything that is not a plain number of sane size."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _numbered(name: str, *stems: str) -> bool:
    """`mc0` and the like."""
    return any(name.startswith(stem) and name[len(stem) :].isdigit() for stem in stems)


def _memory(host: Host) -> dict[str, int | None]:
    return parse_meminfo(host.read_text("/proc/meminfo"))


def _controllers(host: Host) -> list[dict[str, Any]]:
    """The EDAC controllers; none where no EDAC driver is loaded."""
    try:
        names = host.list_dir(EDAC)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [_controller(host, name) for name in names if _numbered(name, "mc")]


def _controller(host: Host, name: str) -> dict[str, Any]:
    corrected = _count(host, f"{EDAC}/{name}/ce_count")
    uncorrected = _count(host, f"{EDAC}/{name}/ue_count")
    # A hundred small files on a large node: only worth reading where there is something to name.
    modules = _dimms(host, f"{EDAC}/{name}") if corrected or uncorrected else []
    return {"name": name, "corrected": corrected, "uncorrected": uncorrected, "modules": modules}


def _dimms(host: Host, folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        names = [name for name in host.list_dir(folder) if _numbered(name, "dimm", "rank")]
    except OSError:
        return []
    for name in names[:MAX_DIMMS]:
        corrected = _count(host, f"{folder}/{name}/dimm_ce_count") or 0
        uncorrected = _count(host, f"{folder}/{name}/dimm_ue_count") or 0
        if corrected or uncorrected:
            label = _label(host, f"{folder}/{name}/dimm_label") or name
            found.append({"label": label, "corrected": corrected, "uncorrected": uncorrected})
    return found


def _label(host: Host, path: str) -> str:
    try:
        text = host.read_text(path, 128)
    except OSError:
        return ""
    return "".join(c for c in text if c.isprintable() and c != "\ufffd").strip()


def _count(host: Host, path: str) -> int | None:
    try:
        return parse_count(host.read_text(path, 64))
    except OSError:
        return None


def _modules(host: Host) -> list[str]:
    """Modules in the kernel: loaded and live, and those built in that show under /sys/module."""
    live: set[str] = set()
    other: set[str] = set()
    missing: OSError | None = None
    try:
        live, other = parse_modules(host.read_text("/proc/modules", MAX_MODULE_TEXT))
    except FileNotFoundError as error:
        missing = error
    try:
        present = set(host.list_dir(MODULES))
    except OSError:
        if missing is not None:
            raise missing from None
        present = set()
    return sorted(live | (present - other))


def _clock(host: Host) -> dict[str, Any]:
    return host.clock()._asdict()


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def _problem(kind: str, reason: str) -> dict[str, str | None]:
    return {"kind": kind, "reason": reason, "call": None, "subject": None}
