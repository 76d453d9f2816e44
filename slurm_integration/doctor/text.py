"""What the doctor says, for people: plain lines in a pipe, colours on a terminal."""

from healthcheck.report.clean import clean
from slurm_integration.doctor.model import Complaint, Examination, Level

COLOURS = {Level.WRONG: "bold red", Level.ADVICE: "yellow"}
WIDTH = 2_000


def as_text(found: Examination) -> str:
    """Four lines a complaint, and one line about all. Pure."""
    blocks = ["\n".join([head(one), *(f"        {label:<5} {text}" for label, text in rest(one))])
              for one in found.complaints]  # fmt: skip
    return "\n\n".join([*blocks, closing(found)])


def head(one: Complaint) -> str:
    """`wrong   slurm.conf: PrologFlags lacks DeferBatch`."""
    return f"{one.level.value:<7} {clean(one.subject, WIDTH)}: {clean(one.what, WIDTH)}"


def rest(one: Complaint) -> list[tuple[str, str]]:
    """Why it matters and how to mend it."""
    return [("why", clean(one.why, WIDTH)), ("mend", clean(one.mend, WIDTH))]


def closing(found: Examination) -> str:
    """The last line: how many, and what was looked at."""
    wrongs, advices = found.count(Level.WRONG), found.count(Level.ADVICE)
    told = f"{wrongs} wrong, {advices} advice" if found.complaints else "nothing wrong"
    return f"{told}; {found.rules} rules on {', '.join(found.looked_at)}"


def show(found: Examination) -> None:
    """On a terminal: the same words, folded to its width and coloured."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for one in found.complaints:
        colour = COLOURS[one.level]
        console.print(Text.assemble(
            (f"{one.level.value:<7} ", colour), (clean(one.subject, WIDTH), "bold"), ": ",
            clean(one.what, WIDTH),
        ))  # fmt: skip
        grid = Table.grid(padding=(0, 1))
        grid.add_column(style="dim", width=4)
        grid.add_column(overflow="fold")
        for label, text in rest(one):
            grid.add_row(label, Text(text, style="green" if label == "mend" else ""))
        console.print(Padding(grid, (0, 0, 1, 8)))
    colour = COLOURS[found.complaints[0].level] if found.complaints else "bold green"
    console.print(Text(closing(found), style=colour))
