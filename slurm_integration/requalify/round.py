"""One round: look at Slurm, look at the nodes that are due, resume those that are proven."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from slurm_integration.node_state import NodeState, parse_nodes
from slurm_integration.requalify.book import Book, Record
from slurm_integration.requalify.door import RequalifyScontrol, reserved_nodes
from slurm_integration.requalify.learn import learn
from slurm_integration.requalify.review import review
from slurm_integration.requalify.rules import Rules
from slurm_integration.requalify.standing import Stand, Standing, span, stand_of, wants_reboot
from slurm_integration.requalify.store import Store
from slurm_integration.sweep.model import NodeResult
from slurm_integration.sweep.nodeset import fold


class Look(Protocol):
    """A way to look at nodes: what the sweep's transports are, and what a test puts in place.

    Gives a result for each node; one that is missing counts as interrupted.
    """

    def __call__(self, nodes: Sequence[NodeState]) -> Mapping[str, NodeResult]:
        """Run the whole set of checks on these nodes."""


class SlurmError(Exception):
    """Slurm could not be read: nothing was done."""


class Done(msgspec.Struct, frozen=True):
    """What was done about nodes: resumed, would-resume, over-budget, rebooted, would-reboot,
    changed (not ours to resume any more), failed."""

    what: str
    nodes: tuple[str, ...]
    why: str = ""


class Round(msgspec.Struct, frozen=True):
    """A round's end: where each of our drained nodes stands, what was done, and who is foreign."""

    at: float
    standings: tuple[Standing, ...]
    done: tuple[Done, ...]
    book: Book
    foreign: tuple[str, ...]
    notes: tuple[str, ...] = ()


class _View(msgspec.Struct, frozen=True):
    nodes: dict[str, NodeState]
    reserved: frozenset[str]


class Requalifier:
    """Holds what every round needs. `only`: the nodes asked for, or None for all."""

    def __init__(
        self,
        slurm: RequalifyScontrol,
        look: Look,
        store: Store,
        rules: Rules,
        *,
        sweep_checks: Collection[str] = (),
        only: Collection[str] | None = None,
        dry_run: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._slurm, self._look, self._store = slurm, look, store
        self._rules, self._checks = rules, frozenset(sweep_checks)
        self._only = None if only is None else frozenset(only)
        self._dry_run, self._clock = dry_run, clock

    def round(self) -> Round:
        """One round. Raises SlurmError and StoreError; then nothing was resumed."""
        book, note = self._store.load()
        view = self._view()
        book = review(book, view.nodes.values(), self._clock(), self._rules)
        due = [s.node for s in self._standings(book, view) if s.stand is Stand.DUE]
        if due:
            results = self._look([view.nodes[name] for name in due])
            asked = {name: results[name] for name in due if name in results}
            book = learn(book, asked, self._clock(), self._rules, self._checks)
        self._store.save(book)
        done: list[Done] = []
        proven = self._proven(book, view)
        if proven:
            book, view = self._resume(book, proven, done)
        book = self._reboot(book, view, done)
        return Round(
            at=self._clock(),
            standings=tuple(self._standings(book, view)),
            done=tuple(done),
            book=book,
            foreign=tuple(node.name for node in view.nodes.values() if node.foreign),
            notes=(*((note,) if note else ()), *self._strays(view)),
        )

    def _strays(self, view: _View) -> list[str]:
        """Nodes that were asked for and that are not ours to bring back."""
        asked = sorted(self._only or ())
        unknown = [name for name in asked if name not in view.nodes]
        serving = [name for name in asked if name in view.nodes and not view.nodes[name].held]
        told = ((unknown, "Slurm knows no node of this name"), (serving, "in service"))
        return [f"{fold(names)}: {words}" for names, words in told if names]

    def _view(self) -> _View:
        answer, reservations = self._slurm.show_nodes(), self._slurm.show_reservations()
        for one in (answer, reservations):
            if not one.ok:
                raise SlurmError(one.trouble())
        try:
            reserved = reserved_nodes(reservations.stdout)
        except ValueError as error:
            raise SlurmError(f"expected scontrol's list of reservations: {error}") from error
        return _View({node.name: node for node in parse_nodes(answer.stdout)}, reserved)

    def _standings(self, book: Book, view: _View) -> list[Standing]:
        now = self._clock()
        return [
            stand_of(
                book.of(node.name), node, now, self._rules, reserved=node.name in view.reserved
            )
            for node in view.nodes.values()
            if node.ours and (self._only is None or node.name in self._only)
        ]

    def _proven(self, book: Book, view: _View) -> list[Standing]:
        """Whoever may come back, the longest drained first."""
        proven = [s for s in self._standings(book, view) if s.stand is Stand.PROVEN]
        return sorted(proven, key=lambda s: (book.of(s.node).drained_at or 0.0, s.node))

    def _resume(
        self, book: Book, before: Sequence[Standing], done: list[Done]
    ) -> tuple[Book, _View]:
        """Read once more; then one update for all that are still ours and still proven."""
        view = self._view()
        book = review(book, view.nodes.values(), self._clock(), self._rules)
        proven = self._proven(book, view)
        changed = {s.node for s in before} - {s.node for s in proven}
        if changed:
            done.append(Done("changed", tuple(sorted(changed)), "no longer ours to resume"))
        room = max(0, self._rules.max_nodes - len(book.resumes))
        chosen, over = proven[:room], proven[room:]
        if over:
            spent = (
                f"{len(book.resumes)} of {self._rules.max_nodes} resumes within "
                f"{span(self._rules.window_s)} are spent"
            )
            done.append(Done("over-budget", tuple(s.node for s in over), spent))
        if self._dry_run:
            done += [Done("would-resume", (s.node,), s.why) for s in chosen]
        elif chosen:
            book = self._send(book, chosen, done)
            view = self._view()
            book = review(book, view.nodes.values(), self._clock(), self._rules)
            self._store.save(book)
        return book, view

    def _send(self, book: Book, chosen: Sequence[Standing], done: list[Done]) -> Book:
        """The intent is on disk before Slurm hears of it: a crash in between forgets nothing."""
        now, names = self._clock(), [s.node for s in chosen]
        sent = {name: with_resume(book.of(name), now) for name in names}
        resumes = (*book.resumes, *((now, name) for name in names))
        book = msgspec.structs.replace(book.having(sent), resumes=resumes)
        self._store.save(book)
        answer = self._slurm.update_nodes(fold(names), {"State": "RESUME"})
        if answer.ok:
            done += [Done("resumed", (s.node,), s.why) for s in chosen]
        else:
            done.append(Done("failed", tuple(names), answer.trouble()))
        return book

    def _reboot(self, book: Book, view: _View, done: list[Done]) -> Book:
        now = self._clock()
        names = [
            s.node
            for s in self._standings(book, view)
            if s.stand is Stand.DUE
            and wants_reboot(book.of(s.node), view.nodes[s.node], now, self._rules)
        ]
        if not names:
            return book
        if self._dry_run:
            done.append(Done("would-reboot", tuple(names)))
            return book
        book = book.having({name: with_reboot(book.of(name), now) for name in names})
        self._store.save(book)
        answer = self._slurm.reboot(fold(names))
        why = "" if answer.ok else answer.trouble()
        done.append(Done("rebooted" if answer.ok else "failed", tuple(names), why))
        return book


def with_resume(record: Record, now: float) -> Record:
    """A resume is about to be sent."""
    return msgspec.structs.replace(record, resuming_at=now)


def with_reboot(record: Record, now: float) -> Record:
    """A reboot is about to be asked for; what was proven before it is void."""
    return msgspec.structs.replace(record, reboots=(*record.reboots, now), passes=())
