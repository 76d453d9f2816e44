"""Slurm's configuration as text, from `scontrol show config` or from slurm.conf itself. Pure."""

import calendar
import math
import re
import time

import msgspec

DEFAULTS = {
    "authtype": "auth/munge", "batchstarttimeout": "10", "healthcheckinterval": "0",
    "healthchecknodestate": "ANY", "jobrequeue": "1", "messagetimeout": "10",
    "prologepilogtimeout": "65534", "returntoservice": "0", "slurmdtimeout": "300",
    "slurmduser": "root", "unkillablesteptimeout": "60",
}  # fmt: skip
"""What slurm.conf(5) says of entries that a file leaves out; `show config` prints them all."""
NOTHING = ("", "(null)", "n/a", "none")
_ENDLESS = ("unlimited", "infinite", "65534", "65535")
"""65534 is what 22.05 prints for a PrologEpilogTimeout that is not set."""
_HEAD = re.compile(r"Configuration data as of (\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)")
_SHOWN = re.compile(r"([A-Za-z_0-9]+)(?:\[\d+\])?\s*=(?: (.*)|$)")
_WRITTEN = re.compile(r"\s*([A-Za-z_0-9]+)\s*=\s*(\"[^\"]*\"|.*?)\s*$")


class SlurmConf(msgspec.Struct, frozen=True):
    """Entries by their name in small letters; an entry that is given several times has them all.

    `as_of`: slurmctld's clock when it answered, in unix seconds; None for a file.
    """

    source: str
    values: dict[str, tuple[str, ...]]
    as_of: float | None = None

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of an entry that is more than nothing."""
        found = self.values.get(name.lower(), ())
        return tuple(value for value in found if value.lower() not in NOTHING)

    def text(self, name: str) -> str:
        """The last value, or Slurm's default, or ""."""
        found = self.all(name)
        return found[-1] if found else DEFAULTS.get(name.lower(), "")

    def words(self, name: str) -> tuple[str, ...]:
        """A list such as `Alloc,Contain`, as it is written."""
        return tuple(word.strip() for word in self.text(name).split(",") if word.strip())

    def has(self, name: str, word: str) -> bool:
        """Whether a list holds this word, whatever its case; `word=value` counts too."""
        heads = (one.partition("=")[0].lower() for one in self.words(name))
        return word.lower() in heads

    def option(self, name: str, key: str) -> str:
        """The value of `key=` within a list such as AuthInfo; "" where it is not there."""
        for word in self.words(name):
            head, _, value = word.partition("=")
            if head.strip().lower() == key:
                return value.strip()
        return ""

    def seconds(self, name: str) -> float | None:
        """A time (`30 sec`, `5 min`); infinity where there is no limit, None for what is no time.

        The units are those that `show config` adds.
        """
        words = self.text(name).lower().split()
        if not words:
            return None
        if words[0] in _ENDLESS:
            return math.inf
        if not re.fullmatch(r"\d{1,9}", words[0]):
            return None
        unit = {"min": 60, "hour": 3600, "day": 86_400}.get(words[1] if words[1:] else "", 1)
        return float(int(words[0]) * unit)

    @property
    def version(self) -> tuple[int, int] | None:
        """Slurm's (major, minor), such as (24, 11); None for a file."""
        found = re.match(r"(\d{2})\.(\d{2})", self.text("SLURM_VERSION"))
        return (int(found[1]), int(found[2])) if found else None

    @property
    def path(self) -> str:
        """Where slurm.conf lies, as far as that is known."""
        return self.text("SLURM_CONF")


def parse_shown(text: str) -> SlurmConf:
    """`scontrol show config`, called with TZ=UTC, of any release from 22.05 to 25.11.

    From 24.05 on, entries that may be given several times are shown as `Prolog[0]`.
    """
    values: dict[str, list[str]] = {}
    as_of = None
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head and as_of is None:
            try:
                as_of = float(calendar.timegm((*map(int, head.groups()), 0, 0, 0)))
            except ValueError:
                pass  # no such day
            continue
        if line.startswith(("Cgroup Support", "MPI Plugins")):
            break  # sections of other files
        found = _SHOWN.match(line)
        if found is None:
            continue
        values.setdefault(found[1].lower(), []).append((found[2] or "").strip())
    return SlurmConf("scontrol show config", {k: tuple(v) for k, v in values.items()}, as_of)


def parse_written(text: str, path: str) -> SlurmConf:
    """The text of slurm.conf, its includes already in place.

    Lines of nodes and partitions are left out. Comments, quotes and continued lines are Slurm's.
    """
    values: dict[str, list[str]] = {}
    for line in joined_lines(text):
        found = _WRITTEN.match(line)
        if found is None:
            continue
        name = found[1].lower()
        if name in ("nodename", "partitionname", "nodeset", "downnodes", "frontendname"):
            continue
        values.setdefault(name, []).append(found[2].strip('"'))
    values.setdefault("slurm_conf", [path])
    return SlurmConf(path, {k: tuple(v) for k, v in values.items()})


def joined_lines(text: str) -> list[str]:
    """Lines without comments, those that end in a backslash joined with the next."""
    lines: list[str] = []
    begun = ""
    for raw in text.splitlines():
        line = begun + re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        if line.endswith("\\"):
            begun = line[:-1]
            continue
        begun = ""
        lines.append(line)
    return [*lines, begun] if begun else lines


def clock_text(seconds: float) -> str:
    """A time of day in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
