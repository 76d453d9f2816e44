"""@about_slurm and @about_node: the doctor's rules."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import msgspec

from slurm_integration.doctor import rules as _folder
from slurm_integration.doctor.model import Complaint, Facts, Level
from slurm_integration.doctor.slurm_conf import SlurmConf

SlurmRule = Callable[[SlurmConf, Facts], Iterator[Complaint]]
NodeRule = Callable[[Facts], Iterator[Complaint]]

_RULES: dict[str, NodeRule] = {}


def about_slurm(name: str) -> Callable[[SlurmRule], SlurmRule]:
    """A rule on Slurm's configuration; it is not asked where that could not be read."""

    def register(rule: SlurmRule) -> SlurmRule:
        def on_facts(facts: Facts) -> Iterator[Complaint]:
            if facts.slurm is not None:
                yield from rule(facts.slurm, facts)

        _add(name, on_facts)
        return rule

    return register


def about_node(name: str) -> Callable[[NodeRule], NodeRule]:
    """A rule on this machine."""

    def register(rule: NodeRule) -> NodeRule:
        _add(name, rule)
        return rule

    return register


def _add(name: str, rule: NodeRule) -> None:
    if name in _RULES:
        raise ValueError(f"two rules of the doctor are called {name!r}; rename one")
    _RULES[name] = rule


def load_rules() -> dict[str, NodeRule]:
    """Every rule by its name."""
    for file in sorted(Path(_folder.__path__[0]).glob("[a-z]*.py")):
        import_module(f"{_folder.__name__}.{file.stem}")
    return dict(_RULES)


def examine(facts: Facts) -> tuple[Complaint, ...]:
    """What all rules say, the wrong before the advice. A rule that breaks is told, not fatal."""
    found: list[Complaint] = []
    for name, rule in load_rules().items():
        try:
            found += [msgspec.structs.replace(one, rule=name) for one in rule(facts)]
        except Exception as error:  # noqa: BLE001 - one broken rule must not hide the others
            found.append(_broken(name, error))
    order = list(Level)
    return tuple(sorted(found, key=lambda one: order.index(one.level)))


def wrong(subject: str, what: str, why: str, mend: str) -> Complaint:
    """Something breaks, or drains nodes, or leaves jobs unprotected."""
    return Complaint(Level.WRONG, subject, what, why, mend)


def advice(subject: str, what: str, why: str, mend: str) -> Complaint:
    """Something could be better."""
    return Complaint(Level.ADVICE, subject, what, why, mend)


def _broken(name: str, error: Exception) -> Complaint:
    return Complaint(
        Level.ADVICE, "flightcheck doctor", f"the rule {name} broke: {type(error).__name__}",
        "what it looks for was not judged; this is a bug of flightcheck", f"report it: {error}",
        name,
    )  # fmt: skip
