"""What a person sees while a sweep runs: a live table on a terminal, plain lines in a pipe."""

import time
from typing import Any, Protocol, TextIO

from slurm_integration.sweep.gather import one_line, word_of
from slurm_integration.sweep.model import NodeResult

COLOURS = {"go": "green", "degraded": "yellow", "no-go": "red", "unknown": "magenta"}
RECENT = 8
_REFRESH_S = 0.1


class Screen(Protocol):
    """Shows results as they come."""

    def __enter__(self) -> "Screen":
        """Begin."""

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""

    def show(self, result: NodeResult) -> None:
        """One more node has answered."""

    def tick(self) -> None:
        """Time has passed."""


class Lines:
    """One line a node, for pipes and logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._out.flush()

    def show(self, result: NodeResult) -> None:
        """Write its line."""
        self._out.write(one_line(result) + "\n")
        self._out.flush()

    def tick(self) -> None:
        """Nothing moves in a pipe."""


class Nothing(Lines):
    """For standard output that is wanted for JSON alone."""

    def show(self, result: NodeResult) -> None:
        """Say nothing."""


class Live:
    """A progress bar, a count by verdict and answer, and the last nodes that are not go."""

    def __init__(self, total: int, console: Any) -> None:
        from rich.live import Live as RichLive

        self._total = total
        self._counts: dict[str, int] = {}
        self._recent: list[NodeResult] = []
        self._started = self._drawn = time.monotonic()
        self._live = RichLive(
            self._draw(), console=console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __enter__(self) -> "Live":
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def show(self, result: NodeResult) -> None:
        """Count it."""
        word = word_of(result)
        self._counts[word] = self._counts.get(word, 0) + 1
        if word != "go":
            self._recent = [*self._recent[-RECENT + 1 :], result]
        self.tick()

    def tick(self) -> None:
        """Draw, at most ten times a second: 1,000 nodes answer faster than a terminal draws."""
        now = time.monotonic()
        if now - self._drawn >= _REFRESH_S:
            self._drawn = now
            self._live.update(self._draw(), refresh=True)

    def _draw(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        done = sum(self._counts.values())
        head = Table.grid(padding=(0, 2), expand=True)
        head.add_column(ratio=1)
        head.add_column(justify="right")
        seconds = time.monotonic() - self._started
        head.add_row(ProgressBar(self._total, done), f"{done}/{self._total}  {seconds:.0f} s")
        counts = Text("  ").join(
            Text(f"{count} {word}", style=COLOURS.get(word, "cyan"))
            for word, count in sorted(self._counts.items())
        )
        recent = [
            Text(one_line(result), COLOURS.get(word_of(result), "cyan"), no_wrap=True,
                 overflow="ellipsis")
            for result in self._recent
        ]  # fmt: skip
        return Group(head, counts, *recent)
