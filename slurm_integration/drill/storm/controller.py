"""slurmctld as a storm meets it: nodes behind one lock, a clock of its own, and bad days. Pure.

It does what 22.05 was seen to do: a Reason without a drain is not kept, a drain without a Reason is
refused, a drain overwrites the reason before it. Readers share the lock, writers hold it alone;
an update takes effect when its turn is over, and not before.
"""

import random
import time
from collections.abc import Sequence

import msgspec

STAMP = "%Y-%m-%dT%H:%M:%S"


class Mood(msgspec.Struct, frozen=True):
    """How the controller is today. Seconds are drawn evenly from (low, high).

    `read_s` and `update_s`: how long the lock is held. `reply_s`: how much later the answer
    arrives (a long queue, a busy network). `refuse`: show, update or "" for nothing. `rate` > 0:
    that many requests a second, and as many at once, are served; the others are told to back off
    (Slurm exempts root and SlurmUser from this: worse than the real one).
    """

    read_s: tuple[float, float] = (0.004, 0.012)
    update_s: tuple[float, float] = (0.002, 0.005)
    reply_s: tuple[float, float] = (0.0005, 0.002)
    refuse: str = ""
    rate: float = 0.0


class Node(msgspec.Struct):
    """One node, changed in place."""

    name: str
    drained: bool = False
    reason: str = ""
    at: float = 0.0
    comment: str = ""

    def line(self) -> str:
        """As `scontrol -o show node` prints it, shortened to the fields that anybody reads."""
        state = "MIXED+DRAIN" if self.drained else "MIXED"
        text = (
            f"NodeName={self.name} Arch=x86_64 CoresPerSocket=56 CPUAlloc=96 CPUTot=112 "
            f"Gres=gpu:h100:8 OS=Linux 6.1.0 #1 SMP RealMemory=2000000 State={state} "
            "ThreadsPerCore=1 Weight=1 Partitions=gpu Version=22.05.8 ExtSensorsTemp=n/s"
        )
        if self.reason:
            stamp = time.strftime(STAMP, time.gmtime(self.at))
            text += f" Reason={self.reason} [root@{stamp}]"
        return text + (f" Comment={self.comment}" if self.comment else "")


class Controller:
    """The nodes, the lock and the counts."""

    def __init__(self, names: Sequence[str], mood: Mood, seed: int = 1) -> None:
        self.nodes = {name: Node(name) for name in names}
        self.mood = mood
        self.calls: dict[str, int] = {}
        """Requests served by node that asked."""
        self.most_drained = 0
        self._random = random.Random(seed)  # noqa: S311 - delays are no secret
        self._readers_end = self._writer_end = 0.0
        self._tokens, self._filled = mood.rate, 0.0
        self._text: bytes | None = None

    def drain(self, name: str, reason: str, at: float) -> None:
        """A drain of earlier, or somebody else's."""
        node = self.nodes[name]
        node.drained, node.reason, node.at = True, reason, at
        self._text = None

    def throttled(self, now: float) -> bool:
        """Whether this request is told to back off."""
        if not self.mood.rate:
            return False
        self._tokens += (now - (self._filled or now)) * self.mood.rate
        self._tokens, self._filled = min(self._tokens, self.mood.rate), now
        self._tokens -= 1
        if self._tokens < 0:
            self._tokens = 0
            return True
        return False

    def late_by(self) -> float:
        """How much later than it is ready an answer arrives."""
        return self._random.uniform(*self.mood.reply_s)

    def done_at(self, verb: str, now: float) -> float:
        """When a request of now is done: the lock's queue and the time under it."""
        if verb == "show":
            end = max(now, self._writer_end) + self._random.uniform(*self.mood.read_s)
            self._readers_end = max(self._readers_end, end)
            return end
        start = max(now, self._writer_end, min(self._readers_end, now + self.mood.read_s[1]))
        self._writer_end = start + self._random.uniform(*self.mood.update_s)
        return self._writer_end

    def answer(self, words: Sequence[str], clock: float) -> bytes:
        """Do what is asked; `clock` is the controller's wall clock."""
        node = words[0].rpartition("/")[0].rpartition("/")[2]
        self.calls[node] = self.calls.get(node, 0) + 1
        verb = "update" if words[1] == "update" else "show"
        if verb == self.mood.refuse:
            return b"1slurm_update error: Access/permission denied\n"
        if verb == "show":
            return self._show()
        return self._update(dict(word.split("=", 1) for word in words[2:]), clock)

    def _show(self) -> bytes:
        if self._text is None:
            lines = "\n".join(node.line() for node in self.nodes.values())
            self._text = f"0{lines}\n".encode()
        return self._text

    def _update(self, fields: dict[str, str], clock: float) -> bytes:
        node = self.nodes.get(fields["NodeName"])
        if node is None:
            return b"1slurm_update error: Invalid node name specified\n"
        if fields.get("State") == "DRAIN" and not fields.get("Reason"):
            return b"1You must specify a reason when DOWNING or DRAINING a node. Request denied\n"
        node.comment = fields.get("Comment", node.comment)
        if fields.get("State") == "DRAIN":
            node.drained, node.reason, node.at = True, fields["Reason"], clock
        self._text = None
        self.most_drained = max(self.most_drained, sum(n.drained for n in self.nodes.values()))
        return b"0"
