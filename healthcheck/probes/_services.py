"""The state of systemd services, read from files and without starting a process.

systemd keeps two traces of every unit that is not inactive: its control group, whose
`cgroup.events` says whether processes are in it (v1: `cgroup.procs`), and a link
`/run/systemd/units/invocation:UNIT` (since version 235; both are removed when the unit becomes
inactive or failed: systemd src/core/unit.c, unit_notify). The link also shows one-shot units that
stay active without processes. Part of the storage probe.
"""

from healthcheck.host import Host
from healthcheck.reading import Ask

UNITS = "/run/systemd/units"
GROUPS = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice")
UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
MAX_SERVICES = 64
COMMAND_STAGES = ("epilog", "health", "sweep")
KNOWN_STATES = (
    "active",
    "reloading",
    "inactive",
    "failed",
    "activating",
    "deactivating",
    "maintenance",
)


def read_services(ask: Ask) -> dict[str, str]:
    """State by name as the site wrote it: active, inactive, failed, activating, … or unknown.

    Where the files do not say "active", stages other than the prolog ask systemctl, which has
    the last word. In the prolog a unit without any trace is inactive where systemd's traces of
    other units are there, and unknown where there is no systemd to ask.
    """
    host = ask.host
    wanted = [name for name in dict.fromkeys(ask.plan.services) if name][:MAX_SERVICES]
    if not wanted:
        return {}
    ask.progress.note("read services")
    links = _names(host, UNITS)
    tree = next((folder for folder in GROUPS if _names(host, folder) is not None), None)
    states = {}
    for name in wanted:
        unit = unit_name(name)
        state = _state(host, unit, links, tree)
        if state != "active" and ask.plan.stage in COMMAND_STAGES:
            ask.progress.note("systemctl is-active", unit)
            state = _asked(ask, unit) or state
        states[name] = state
    return states


def unit_name(name: str) -> str:
    """The unit's full name: a service unless another type is written."""
    types = (".service", ".socket", ".target", ".mount", ".timer", ".path", ".scope", ".slice")
    return name if name.endswith(types) else f"{name}.service"


def parse_populated(text: str) -> bool | None:
    """Whether `cgroup.events` says that processes are in the group or below it."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == "populated" and value.strip() in ("0", "1"):
            return value.strip() == "1"
    return None


def parse_is_active(text: str) -> str | None:
    """The word `systemctl is-active` printed, where it is one of systemd's states."""
    word = text.strip()
    return word if word in KNOWN_STATES else None


def parse_lingers(text: str) -> bool:
    """Whether a unit file describes a service that may be active without any process."""
    for line in text.splitlines():
        key, _, value = line.replace(" ", "").partition("=")
        if key == "Type" and value == "oneshot":
            return True
        if key == "RemainAfterExit" and value.lower() in ("yes", "true", "on", "1"):
            return True
    return False


def _state(host: Host, unit: str, links: list[str] | None, tree: str | None) -> str:
    if tree is not None and _populated(host, f"{tree}/{unit}"):
        return "active"
    if links is not None and f"invocation:{unit}" in links:
        # No process in the group: a one-shot that is done, another slice, or a service that
        # died and waits to be started again. Only the last is bad, and only with a group of
        # its own to look into.
        if not unit.endswith(".service") or _lingers(host, unit):
            return "active"
        return "activating" if tree is not None and _grouped(host, unit, tree) else "active"
    if links:
        return "inactive"
    if tree is None:
        return "unknown"
    # systemd before 235: a finished one-shot leaves no trace.
    return "unknown" if _lingers(host, unit) else "inactive"


def _populated(host: Host, group: str) -> bool:
    """Whether any process is in the group."""
    events = _text(host, f"{group}/cgroup.events")
    populated = None if events is None else parse_populated(events)
    if populated is not None:
        return populated
    return bool(_text(host, f"{group}/cgroup.procs"))


def _grouped(host: Host, unit: str, tree: str) -> bool:
    """Whether the unit lives in system.slice, judged by its unit file naming no other slice."""
    text = _unit_file(host, unit)
    return text is None or "\nSlice=" not in text or host.exists(f"{tree}/{unit}")


def _lingers(host: Host, unit: str) -> bool:
    text = _unit_file(host, unit)
    return text is not None and parse_lingers(text)


def _unit_file(host: Host, unit: str) -> str | None:
    # foo@bar.service is an instance of foo@.service.
    stem, at, rest = unit.partition("@")
    names = [unit, f"{stem}@.{rest.rpartition('.')[2]}"] if at else [unit]
    for folder in UNIT_FOLDERS:
        for name in names:
            text = _text(host, f"{folder}/{name}", 65_536)
            if text is not None:
                return text
    return None


def _asked(ask: Ask, unit: str) -> str | None:
    try:
        answer = ask.host.run(["systemctl", "is-active", unit], ask.plan.command_timeout_s)
    except OSError:
        return None
    return parse_is_active(answer.stdout)


def _names(host: Host, folder: str) -> list[str] | None:
    try:
        return host.list_dir(folder)
    except OSError:
        return None


def _text(host: Host, path: str, limit: int = 4096) -> str | None:
    try:
        return host.read_text(path, limit)
    except OSError:
        return None
