"""Power supplies as the management controller (BMC) shows them: IPMI sensors of type 08h.

Asked through ipmitool, which takes hundreds of milliseconds to seconds. Part of the power probe.
"""

import re
from typing import Any

from healthcheck.reading import Ask

DEVICES = ("/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0")
COMMAND = ["ipmitool", "-c", "sdr", "type", "Power Supply"]
MAX_SENSORS = 128

# States of IPMI sensor types 08h and 09h and of generic event type 0Bh as ipmitool words them,
# worst first. The first pattern that one of the sensor's states matches decides.
_STATES = (
    ("failed", re.compile(r"^(power supply )?failure detected")),
    ("input-lost", re.compile(r"(ac|dc|input|power) lost")),
    ("insufficient", re.compile(r"insufficient resources")),
    ("redundancy-lost", re.compile(r"redundancy lost|^non-redundant")),
    (
        "alarm",
        re.compile(
            r"predictive failure(?! deasserted)|config(uration)? error|out-of-range|"
            r"redundancy degraded|limit exceeded|^transition to (non-)?critical|"
            r"^transition to non-recoverable|performance lags"
        ),
    ),
    ("absent", re.compile(r"device (absent|removed)|^absent")),
    (
        "ok",
        re.compile(
            r"presence detected|device (present|inserted)|fully redundant|deasserted|inactive|"
            r"transition to (ok|running)|limit not exceeded|performance met|monitor|informational"
        ),
    ),
)
_HEX_NUMBER = re.compile(r"[0-9a-fA-F]{1,2}h")
_ALARMING_NAME = re.compile(r"fail|lost|alert|fault", re.IGNORECASE)


def read_ipmi(ask: Ask) -> list[dict[str, Any]]:
    """What the BMC says, or one `source` entry that says why it was not asked or did not say."""
    device = next((path for path in DEVICES if ask.host.exists(path)), None)
    if device is None:
        return [_source("absent", f"no {DEVICES[0]}: no BMC, or its driver is not loaded")]
    ask.progress.note("ipmitool", device)
    try:
        answer = ask.host.run(COMMAND, ask.plan.command_timeout_s)
    except FileNotFoundError:
        return [_source("absent", "ipmitool is not installed")]
    except OSError as error:
        return [_source("unknown", f"ipmitool: {error.strerror}")]
    if answer.code is None:
        return [_source("unknown", f"no answer within {ask.plan.command_timeout_s:g} s")]
    sensors = parse_power_sdr(answer.stdout)
    # ipmitool exits with 1 when a single sensor of many cannot be read; what it printed counts.
    if answer.code != 0 and not sensors:
        told = next(iter(answer.stderr.split("\n")), "").strip()[:200]
        return [_source("unknown", f"ipmitool ended with {answer.code}: {told or 'no word'}")]
    return sensors


def parse_power_sdr(text: str) -> list[dict[str, Any]]:
    """The entries of `ipmitool -c sdr type "Power Supply"` (or the same without -c).

    A discrete sensor is `NAME,NUMBERh,ok|ns,ENTITY,STATE, STATE…`, a threshold sensor
    `NAME,READING,UNIT,STATUS` (ipmitool lib/ipmi_sdr.c). Lines of other forms are left out.
    """
    found: list[dict[str, Any]] = []
    for line in text.splitlines()[:MAX_SENSORS]:
        columns = [c.strip() for c in line.split("|" if "|" in line else ",")]
        if len(columns) < 4 or not columns[0]:
            continue
        if _HEX_NUMBER.fullmatch(columns[1]):
            states = [s.strip() for s in ",".join(columns[4:]).split(",") if s.strip()]
            found.append(_discrete(columns[0], columns[2].lower(), columns[3], states))
        else:
            found += _analog(columns[0], columns[1], columns[2], columns[3].lower())
    return _told_apart(found)


def parse_states(name: str, states: list[str]) -> str:
    """The state that a sensor's asserted states add up to; unknown where none is known to us."""
    lowered = [state.lower() for state in states]
    for state, pattern in _STATES:
        if any(pattern.search(text) for text in lowered):
            return state
    if "state asserted" in lowered:
        return "alarm" if _ALARMING_NAME.search(name) else "ok"
    return "unknown"


def _discrete(name: str, status: str, entity: str, states: list[str]) -> dict[str, Any]:
    redundancy = "redun" in name.lower() or any("redundan" in s.lower() for s in states)
    # Entity 10 is "power supply" (IPMI 2.0, table 43-13).
    supply = not redundancy and entity.startswith("10.")
    if status == "ns":
        state = "unknown"
    elif states:
        state = parse_states(name, states)
    else:
        # No state asserted: a power supply that does not even say "present" is an empty bay.
        state = "absent" if supply else "unknown"
    kind = "redundancy" if redundancy else "supply" if supply else "sensor"
    detail = ", ".join(states)[:200] or None
    return {**_entry(name, state, detail), "kind": kind, "_entity": entity}


def _analog(name: str, reading: str, unit: str, status: str) -> list[dict[str, Any]]:
    """One entry, or none for a line that is not a sensor's."""
    if status in ("nc", "cr", "nr", "lnc", "lcr", "lnr", "unc", "ucr", "unr"):
        state = "alarm"
    elif status in ("ok", "ns"):
        state = "ok" if status == "ok" and reading else "unknown"
    else:
        return []
    detail = f"{reading} {unit} ({status})".strip()[:200] if reading else None
    return [_entry(name, state, detail)]


def _told_apart(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some makers call every supply "Status"; the entity then tells them apart."""
    names = [entry["name"] for entry in entries]
    for entry in entries:
        entity = entry.pop("_entity", None)
        if entity and names.count(entry["name"]) > 1:
            entry["name"] = f"{entry['name']} {entity}"
    return entries


def _entry(name: str, state: str, detail: str | None = None) -> dict[str, Any]:
    return {"name": name[:64], "state": state, "origin": "ipmi", "detail": detail}


def _source(state: str, why: str) -> dict[str, Any]:
    return {**_entry("ipmitool", state, why), "kind": "source"}
