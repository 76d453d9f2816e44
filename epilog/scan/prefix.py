"""Who wrote a line: rank, task, host and time from the prefixes of launchers and loggers."""

import re

import msgspec

from epilog.scan.times import parse_time

_NAME = r"[A-Za-z0-9](?:[\w.-]*[\w])?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ISO = r"\d{4}-\d\d-\d\d[ T_]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"

# Each takes one prefix off the front. Named groups say what it tells; `weak` is a rank within a
# process group, which is the global rank only in the default group.
_PEELERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[rank ?(?P<rank>\d{1,7})\]: ?",  # torch excepthook and c10 logging
        r"\[rank: ?(?P<rank>\d{1,7})\] ?",  # Lightning
        r"\[(?:[\w.-]+@)?\d+,(?P<rank>\d{1,7})\](?:<std(?:out|err|diag)>)?:? ?",  # Open MPI
        r"\[(?P<rank>\d{1,7})\]<std(?:out|err)>: ?",  # horovodrun
        r"\[(?P<host>[A-Za-z][\w.-]*):(?P<local_rank>\d{1,2})\]: ?",  # host:local rank
        r"\[(?P<host>[A-Za-z][\w.-]*):(?P<pid>\d+)\s*(?::\d+){0,2}\] ?",  # Open MPI, UCX
        r"\[(?P<role>[A-Za-z_][\w.-]*?)(?P<role_rank>\d{1,4})\]: ?",  # torchrun [default0]:
        rf"\[?(?P<time>{_ISO})\]?(?::(?= )| -(?= ))?\s?",
        rf"\[?(?P<time>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} [ \d]\d "
        r"\d\d:\d\d:\d\d(?:\.\d+)? \d{4})\]?\s?",
        rf"(?P<time>{_MONTH} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<host>{_NAME}) "
        r"(?:kernel: ?|[\w./-]+(?:\[\d+\])?: )",  # syslog
        rf"(?P<host>{_NAME}): (?:kern|user|daemon): +\w+: ",  # Talos
        r"\[ *\+?\d+\.\d{6}\] ?",  # dmesg since boot
        r"\[(?P<time>\d\d/\d\d/\d\d \d\d:\d\d:\d\d)\] ?",  # rich
        r"\[[IWEF](?P<time>\d{3,4} \d\d:\d\d:\d\d(?:\.\d+)?)? ?(?:\d+ )?[\w./+-]+:\d+\] ?",  # c10
        r"[IWEF](?P<time>\d{4} \d\d:\d\d:\d\d\.\d+)\s+\d+ [\w./+-]+:\d+\] ?",  # glog
        r"[IWEF] [\w./+-]+:\d+\] ?",  # TensorFlow, XLA
        rf"(?P<host>{_NAME}):(?P<pid>\d+):\d+ \[(?P<device>-?\d+)\] ",  # NCCL
        r"\[PG (?:ID )?(?P<pg>\d+)(?: PG GUID (?P<guid>[^\s(\]]+))? ?"
        r"(?:\((?P<desc>[^)\]]*)\))? Rank (?P<weak>\d{1,7})\] ?",
        r"\[(?:Rank|RANK) ?(?P<weak>\d{1,7})\]:? ?",
        r"\((?:raylet|[\w.:-]+)(?:[ ,]+(?:pid=(?P<pid>\d+)|ip=(?P<host>[\w.:-]+)))+\) ?",  # Ray
        r"\(raylet\) ?",
        rf"(?P<dotted>{_NAME}) \[std(?:err|out)\] ",  # milabench: run.node.tag
        r"\[\d+\.(?:\d+|batch|extern|interactive)\] ",  # slurmd's step
    )
)
_BY_FIRST = {
    first: tuple(rx for rx in _PEELERS if rx.pattern.startswith(starts))
    for first, starts in {
        "[": (r"\[",),
        "(": (r"\(",),
        "digit": (r"\[?(?P<time>\d", rf"(?P<host>{_NAME})", rf"(?P<dotted>{_NAME})"),
        "letter": (r"\[?(?P<time>(", "(?P<time>(?:Jan", "[IWEF]", "(?P<host>", "(?P<dotted>"),
    }.items()
}
_LABEL = re.compile(r" {0,6}(?P<label>\d{1,7}): ?")  # srun -l
_HYDRA = re.compile(r"\[(?P<label>\d{1,7})\] (?=\S)")  # mpiexec -prepend-rank
_RANK_WORD = re.compile(r"(?:rank|Rank|RANK)[ _-]?(?P<rank>\d{1,7})(?:: |\] )")
_HOST_COLON = re.compile(r"(?P<host>[A-Za-z][\w.-]{0,62}): ")  # pdsh, DeepSpeed, clush
_NO_HOST = re.compile(
    r"(?i)(?:epoch|iter|step|gpu|cuda|layer|fold|run|test|task|local|device|stage|batch|sample|"
    r"loss|lr|top|val|train|block|expert|bucket|shard|part|phase|level|seed|trial|exp|version|v|"
    r"utf|sha|md|line|worker|process|thread|node_rank|c10d?|h?ttp)[-_]?\d*(?:[._]\w*)?"
)
_EMBEDDED = re.compile(
    r"(?:\[[A-Za-z][\w.-]*:\d{1,2}\]:)?\[(?:rank|default)\d{1,7}\]: ?|\[\d+,\d{1,7}\]<std\w+>: ?"
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
)
_LAST_RANK = re.compile(r"\[(?:(?P<pg>PG [^\]]*?) )?Rank (?P<weak>\d{1,7})\]")
_PG = re.compile(
    r"\[PG (?:ID )?(?P<pg>\d+)(?: PG GUID (?P<guid>[^\s(\]]+))? ?(?:\((?P<desc>[^)\]]*)\))? Rank"
)
_MAX_PEELS = 12


class Prefix(msgspec.Struct):
    """What a line's prefixes tell. `body` is where the line's own text begins."""

    rank: int | None = None
    weak_rank: int | None = None
    local_rank: int | None = None
    label: int | None = None
    host: str | None = None
    pid: int | None = None
    at: float | None = None
    group: str | None = None
    body: int = 0

    @property
    def stream(self) -> tuple[object, ...]:
        """Lines of equal streams come from one writer."""
        return (self.rank, self.local_rank, self.label, self.host, self.pid)

    @property
    def best_rank(self) -> int | None:
        """The global rank, as well as the prefixes tell it."""
        return self.weak_rank if self.rank is None else self.rank


class PrefixParser:
    """Parses prefixes. `nodes`: the job's hosts, if known. `around`: a time near the job's."""

    def __init__(self, nodes: tuple[str, ...] = (), around: float | None = None) -> None:
        self._nodes = frozenset(nodes) | {node.partition(".")[0] for node in nodes}
        self._around = around

    def parse(self, text: str) -> Prefix:
        """Take prefix after prefix off the front of `text`."""
        prefix = Prefix()
        self._peel(text, 0, prefix)
        return prefix

    def parse_at(self, text: str, where: int) -> Prefix:
        """The prefixes that hold at `where`: a second writer may have begun in mid-line."""
        prefix = self.parse(text)
        start = 0
        for match in _EMBEDDED.finditer(text, prefix.body, where + 1):
            start = match.start()
        if start:
            outer, prefix = prefix, Prefix()
            prefix.at = outer.at
            self._peel(text, start, prefix)
            if prefix.rank is None and prefix.local_rank is None:
                prefix.rank, prefix.local_rank = outer.rank, outer.local_rank
                prefix.weak_rank = outer.weak_rank
            prefix.label = outer.label if prefix.label is None else prefix.label
            prefix.host = outer.host if prefix.host is None else prefix.host
        self._nearest_rank(text, where, prefix)
        return prefix

    def _nearest_rank(self, text: str, where: int, prefix: Prefix) -> None:
        for match in _PG.finditer(text, 0, where + 1):
            prefix.group = _group_name(match)
        if prefix.rank is not None or prefix.weak_rank is not None:
            return
        for match in _LAST_RANK.finditer(text, 0, where + 12):
            if match["pg"] is None or prefix.group is None or _is_default(prefix.group):
                prefix.weak_rank = int(match["weak"])

    def _peel(self, text: str, at: int, prefix: Prefix) -> None:
        for count in range(_MAX_PEELS):
            match = _first_match(text, at)
            if match is None and (count == 0 or prefix.at is not None):
                match = self._first_only(text, at, prefix)
            if match is None or match.end() == at or not self._take(match, prefix):
                break
            at = match.end()
        prefix.body = at

    def _first_only(self, text: str, at: int, prefix: Prefix) -> re.Match[str] | None:
        """Prefixes that are too plain to be believed after another one."""
        if prefix.label is None and prefix.rank is None:
            for rx in (_LABEL, _HYDRA, _RANK_WORD):
                if match := rx.match(text, at):
                    return match
        if prefix.host is None and (match := _HOST_COLON.match(text, at)):
            return match if self._is_host(match["host"]) else None
        return None

    def _is_host(self, name: str) -> bool:
        if self._nodes:
            return name in self._nodes or name.partition(".")[0] in self._nodes
        return any(char.isdigit() for char in name) and not _NO_HOST.fullmatch(name)

    def _take(self, match: re.Match[str], prefix: Prefix) -> bool:
        told = {key: value for key, value in match.groupdict().items() if value is not None}
        if "role" in told:
            return self._take_role(told["role"], told["role_rank"], prefix)
        for key in ("rank", "local_rank", "label", "pid"):
            if key in told and getattr(prefix, key) is None:
                setattr(prefix, key, int(told[key]))
        if "host" in told and prefix.host is None:
            prefix.host = told["host"]
        if "dotted" in told and prefix.host is None:
            prefix.host = self._host_of_dotted(told["dotted"])
        if "time" in told:
            at = parse_time(told["time"], self._around if prefix.at is None else prefix.at)
            prefix.at = prefix.at if at is None else at
        if "pg" in told:
            prefix.group = _group_name(match)
        weak = told.get("weak")
        if weak is not None and ("pg" not in told or _is_default(prefix.group or "")):
            prefix.weak_rank = int(weak)
        return True

    def _take_role(self, role: str, number: str, prefix: Prefix) -> bool:
        """`[default0]:` is a local rank; `[node07]:` is a host."""
        name = role + number
        if name in self._nodes or (role not in ("default", "trainer") and len(number) > 1
                                   and number[0] == "0"):  # fmt: skip
            prefix.host = prefix.host or name
        elif role == "rank":
            prefix.rank = int(number)
        elif prefix.local_rank is None:
            prefix.local_rank = int(number)
        return True

    def _host_of_dotted(self, name: str) -> str | None:
        parts = name.split(".")
        known = [part for part in parts if part in self._nodes]
        plain = [p for p in parts if re.fullmatch(r"[a-z]+[a-z-]*\d+", p)]
        found = known or plain
        return found[-1] if found else None


def _first_match(text: str, at: int) -> re.Match[str] | None:
    """The first prefix that begins at `at`; only those are tried that can begin so."""
    first = text[at : at + 1]
    kind = first if first in "[(" else "digit" if first.isdigit() else "letter"
    for rx in _BY_FIRST[kind] if first else ():
        if match := rx.match(text, at):
            return match
    return None


def _group_name(match: re.Match[str]) -> str:
    """torch's own name of a group, the same on all its ranks: GUID(description)."""
    desc = match["desc"]
    return f"{match['guid'] or match['pg']}{f'({desc})' if desc else ''}"


def _is_default(group: str) -> bool:
    return group.endswith("(default_pg)") or group == "0"
