"""Every class of failure that the epilog knows, and what follows from it."""

from collections.abc import Iterator

from docs.generate import HEAD, cell
from epilog.classes import Act, FailureClass, Fault, classes

FAULTS = {
    Fault.HARDWARE: "The node's hardware",
    Fault.NETWORK: "The network",
    Fault.SITE: "The installation",
    Fault.USER: "The program or its data",
    Fault.SCHEDULER: "Slurm, or who told it to",
    Fault.UNKNOWN: "Not known",
}
ACTS = {
    Act.DRAIN: "drain",
    Act.SUSPECT: "suspect",
    Act.REQUEUE: "requeue",
    Act.TELL: "tell",
    Act.NOTHING: "nothing",
}


def page() -> str:
    """The whole page as Markdown."""
    known = classes()
    lines = [
        HEAD.format(source="epilog/classes.toml") + "# Why jobs fail",
        "",
        f"The {len(known)} classes that `flightcheck report` and `flightcheck classify` give. Text",
        "in a log never drains by itself: *on proof* is what happens once a fact read from the",
        "node itself confirms the class.",
        "",
        "- **drain**: the node is drained, and the job requeued where `[epilog.requeue]` says so",
        "- **suspect**: kept as a suspicion; evidence on the node itself, or an unrelated job of",
        "  another user that suspects it too, drains it for diagnosis",
        "- **requeue**: the job runs again where that is configured",
        "- **tell**: its owner is told, and nothing happens to the node",
    ]
    for fault, title in FAULTS.items():
        group = {name: one for name, one in known.items() if one.fault is fault}
        if group:
            lines += ["", f"## {title}", "", *_table(group)]
    return "\n".join(lines) + "\n"


def _table(group: dict[str, FailureClass]) -> Iterator[str]:
    yield "| class | what happened | on proof | from text alone | to the job's owner |"
    yield "|---|---|---|---|---|"
    for name, one in sorted(group.items()):
        yield (
            f"| `{name}` | {cell(one.says)} | {ACTS[one.proven_action]} | "
            f"{ACTS[one.text_action]} | {cell(one.advice)} |"
        )
