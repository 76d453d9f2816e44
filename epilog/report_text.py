"""An attribution as text for people: class, whose fault, root, story, evidence, what to do."""

from epilog.attribute.case import told
from epilog.attribute.story import who
from epilog.classes import class_of
from epilog.model import Attribution, Drain, Role

MOST_EVIDENCE = 8
MOST_TEXT = 160
_DRAIN = {
    Drain.YES: "yes: a fact read from that node",
    Drain.REVIEW: "review: an active check of the node has to decide",
    Drain.NO: "no",
}
_UNSEEN = dict.fromkeys((*range(32), *range(127, 160), *range(8203, 8208), 65279), " ")
_UNSEEN |= dict.fromkeys((*range(8232, 8239), *range(8288, 8298)), " ")


def as_text(answer: Attribution) -> str:
    """Several lines without a newline at their end; nothing in them can act on a terminal."""
    entry = class_of(answer.klass)
    root = answer.root
    nodes = ", ".join(root.nodes[:6])
    who_began = told(root.ranks) if root.ranks else nodes or "not known"
    on = f" on {nodes}" if root.ranks and nodes else ""
    gpus = f" (GPU {', '.join(root.gpus[:4])})" if root.gpus else ""
    lines = [
        f"class      {answer.klass}: {entry.says}",
        f"confidence {answer.confidence:.2f}",
        f"fault      {entry.fault.value}",
        f"root       {who_began}{on}{gpus}",
        f"drain      {_DRAIN[answer.drain]}",
        "",
        answer.message,
    ]
    if answer.chain:
        lines += ["", "what happened"]
        lines += [f"  {line}" for line in answer.chain]
    if answer.evidence:
        lines += ["", "evidence"]
        order = sorted(answer.evidence, key=lambda e: list(Role).index(e.role))
        lines += [
            f"  {e.file}:{e.line}: {e.role.value}, {who(e)}: {e.text.strip()[:MOST_TEXT]}"
            for e in order[:MOST_EVIDENCE]
        ]
        left = len(answer.evidence) - MOST_EVIDENCE
        lines += [f"  … and {left} more (--json shows all)"] if left > 0 else []
    lines += ["", "how it was found"]
    lines += [f"  {step[:300]}" for step in answer.steps]
    return "\n".join(line.translate(_UNSEEN).rstrip() for line in lines)
