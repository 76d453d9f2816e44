"""Watching a run until it ends, fails, stalls or runs out of time. Never waits without a limit."""

import select
import time
from collections.abc import Callable
from typing import Any

from healthcheck.allreduce.launch import Child, process_state
from healthcheck.allreduce.model import Plan
from healthcheck.allreduce.sampling import Sampler
from healthcheck.allreduce.told import Seen, Told
from healthcheck.attention import Attention

TICK_S = 0.1
GRACE_S = 1.0
"""After the first failure: the others have this long to tell theirs."""
STOPPED_S = 3.0
"""A rank that the kernel calls stopped for so long will not go on by itself."""
SLACK_S = 5.0
"""A collective times out by itself; only a whole group that cannot even do that stalls."""
MAX_MESSAGES = 200_000

Watch = Callable[[dict[str, Any]], None]


class _Run:
    def __init__(self, child: Child, plan: Plan, deadline: float) -> None:
        self.child = child
        self.plan = plan
        self.deadline = deadline
        self.messages: list[dict[str, Any]] = []
        self.pids: dict[int, int] = {}
        self.failed_at: float | None = None
        self.stopped_at: float | None = None
        self.attention = Attention()
        self.moved_at = time.monotonic()
        self.looked_at = 0.0
        self.done = 0
        self.last: object = None

    def take(self, watch: Watch) -> None:
        """Messages that have come."""
        for message in self.child.messages():
            if len(self.messages) < MAX_MESSAGES:
                self.messages.append(message)
            self.moved_at = time.monotonic()
            if message["t"] == "forked":
                self.pids[int(message["rank"]) - self.plan.first] = int(message["pid"])
            self.done += message["t"] == "done"
            if _failure(message) and self.failed_at is None:
                self.failed_at = self.moved_at
            watch(message)

    def over(self, now: float) -> str | None:
        """Why it is over, or None."""
        if self.failed_at is None and self.plan.ranks == self.plan.local == self.done:
            return "end"  # nobody elsewhere needs these ranks any more
        if self.messages and self.messages[-1]["t"] == "end":
            return "end" if self.failed_at is None else "failed"
        if self.child.closed:
            return "gone" if self.failed_at is None else "failed"
        if self.failed_at is not None and now - self.failed_at >= GRACE_S:
            return "failed"
        watched = self.attention.silent_s
        if self.stopped_at is not None and watched(self.stopped_at) >= STOPPED_S:
            return "stopped"
        if now >= self.deadline:
            return "deadline"
        allowed = self.plan.timeout_s if self.connected() else self.plan.join_s
        return "stalled" if watched(self.moved_at) >= allowed + SLACK_S else None

    def connected(self) -> bool:
        """Whether some rank is past the meeting of the ranks."""
        return any(message["t"] == "connected" for message in self.messages[-64:]) or any(
            self.child.state(local).entered for local in range(self.plan.local)
        )

    def look(self, now: float) -> None:
        """Progress in the slots; ranks that the kernel calls stopped."""
        if now - self.looked_at < TICK_S:
            return
        self.looked_at = now
        states = [self.child.state(local) for local in range(self.plan.local)]
        moves = [(s.entered, s.left, s.phases) for s in states]
        if moves != self.last:
            self.last, self.moved_at = moves, now
        if any(process_state(pid) in ("T", "t") for pid in self.pids.values()):
            self.stopped_at = self.stopped_at or now
        else:
            self.stopped_at = None

    def phase(self) -> str:
        """The part of the test that the first rank is in."""
        return self.child.state(0).phase

    def seen(self) -> tuple[Seen, ...]:
        """Every rank of this node as it is now."""
        ranks = []
        for local in range(self.plan.local):
            state, pid = self.child.state(local), self.pids.get(local)
            ranks.append(
                Seen(
                    rank=self.plan.first + local,
                    pid=pid,
                    phase=state.phase,
                    call=state.call,
                    entered=state.entered,
                    left=state.left,
                    phases=state.phases,
                    silent_s=round(self.attention.silent_s(state.at), 2) if state.at else None,
                    state=process_state(pid) if pid else None,
                )
            )
        return tuple(ranks)


def supervise(
    child: Child, plan: Plan, deadline: float, watch: Watch, sampler: Sampler | None = None
) -> Told:
    """Follow the child until it ends or must be ended, and end it. `deadline` is monotonic."""
    run = _Run(child, plan, deadline)
    poller = select.poll()
    poller.register(child.fileno(), select.POLLIN | select.POLLHUP)
    try:
        while True:
            poller.poll(int(TICK_S * 1000))
            run.take(watch)
            now = run.attention.look()
            run.look(now)
            if sampler is not None:
                sampler.turn(now, run.phase())
            ended = run.over(now)
            if ended is not None:
                break
        return Told(
            ended=ended,
            messages=tuple(run.messages),
            seen=run.seen(),
            output=child.output(),
            duration_s=round(time.monotonic() - child.started, 3),
            started_at=round(time.time() - (time.monotonic() - child.started), 3),
        )
    finally:
        child.end()
        if sampler is not None:
            sampler.stop()


def _failure(message: dict[str, Any]) -> bool:
    return message["t"] == "error" or (message["t"] == "exit" and message.get("code") != 0)
