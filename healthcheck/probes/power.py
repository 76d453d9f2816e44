"""Power supplies: hwmon alarms, and outside the prolog the management controller's sensors.

In the prolog only hwmon is read: one directory, one name a chip, and the alarms of those few
chips that measure a power supply.
"""

from typing import Any

from healthcheck.host import Host
from healthcheck.reading import Ask, Progress

HWMON = "/sys/class/hwmon"
IPMI_STAGES = ("epilog", "health", "sweep")
MAX_SENSORS = 128

POWER_CHIPS = (
    "pmbus", "psu", "power_meter", "cffps", "crps", "ipsps", "pfe1100", "pfe3000", "dps650",
    "dps800", "dps920", "fsp", "bpa-rs", "bpa_rs", "max34", "lm25066", "adm127", "adm129",
)  # fmt: skip
"""Parts of the names of chips that sit in a power supply or measure one (kernel
Documentation/hwmon). A motherboard's own monitor (nct67xx and the like) is not heard: its alarms
ring for inputs that are not wired."""
QUANTITIES = ("in", "curr", "power")
BOUNDS = ("", "crit_", "lcrit_", "max_", "min_", "cap_", "rated_max_", "rated_min_")


def read(ask: Ask) -> dict[str, Any]:
    """`power_supplies`: () where this machine has no sensor that speaks about them."""
    supplies = read_hwmon(ask.host, ask.progress)
    if ask.plan.stage in IPMI_STAGES:
        from healthcheck.probes._ipmi import read_ipmi

        supplies += read_ipmi(ask)
    return {"power_supplies": supplies[:MAX_SENSORS]}


def read_hwmon(host: Host, progress: Progress) -> list[dict[str, Any]]:
    """One entry a chip that measures a power supply."""
    try:
        chips = host.list_dir(HWMON)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for chip in chips:
        folder = f"{HWMON}/{chip}"
        name = _text(host, f"{folder}/name")
        if name is None or not parse_power_chip(name):
            continue
        progress.note("hwmon", folder)
        found += _chip(host, folder, f"{name[:40]} {chip}")
    return found


def parse_power_chip(name: str) -> bool:
    """Whether a hwmon chip's name is that of a power supply or of its meter."""
    lowered = name.lower()
    return any(part in lowered for part in POWER_CHIPS)


def parse_alarm(file: str) -> str | None:
    """The channel (`in1`) of an alarm file of voltage, current or power; None for other files."""
    channel, _, rest = file.partition("_")
    quantity = channel.rstrip("0123456789")
    if quantity not in QUANTITIES or quantity == channel or not rest.endswith("alarm"):
        return None
    return channel if rest.removesuffix("alarm") in BOUNDS else None


def _chip(host: Host, folder: str, name: str) -> list[dict[str, Any]]:
    """The chip's alarms as one entry; none for a chip that has no alarms to read."""
    try:
        alarms = {file: parse_alarm(file) for file in host.list_dir(folder)}
    except OSError as error:
        return [_entry(name, "unknown", error.strerror)]
    values = {file: _text(host, f"{folder}/{file}") for file, ch in alarms.items() if ch}
    ringing = []
    for file in [file for file, value in values.items() if value == "1"]:
        label = _text(host, f"{folder}/{alarms[file]}_label")
        ringing.append(f"{file} ({label})" if label else file)
    if ringing:
        return [_entry(name, "alarm", ", ".join(ringing)[:200])]
    if not values:
        return []
    return [_entry(name, "ok" if "0" in values.values() else "unknown")]


def _entry(name: str, state: str, detail: str | None = None) -> dict[str, Any]:
    return {"name": name, "state": state, "origin": "hwmon", "detail": detail}


def _text(host: Host, path: str) -> str | None:
    """A short attribute, or None where it cannot be read."""
    try:
        return host.read_text(path, 256) or None
    except OSError:
        return None
