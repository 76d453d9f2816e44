"""Slurm's time limits against ours: ours must be the shorter, so that our reason wins."""

import math
from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_slurm, advice, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf

MARGIN_S = 5
"""Starting the interpreter and being killed on a busy node."""
_HUNG_BEFORE_S = 2
"""Slurm tells users "Prolog hung" this long before MessageTimeout."""


@about_slurm("prolog-epilog-timeout")
def prolog_epilog_timeout(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """PrologEpilogTimeout, in newer releases two entries, is longer than our deadlines."""
    prolog, epilog = facts.settings.config.deadline_s, facts.settings.epilog_deadline_s
    has_epilog = bool(facts.named("Epilog"))
    for name, ours, what in (
        ("PrologEpilogTimeout", max(prolog, epilog if has_epilog else 0), "hooks"),
        ("PrologTimeout", prolog, "prolog"),
        ("EpilogTimeout", epilog, "epilog"),
    ):
        limit = slurm.seconds(name)
        if limit is None or math.isinf(limit) or limit >= ours + MARGIN_S:
            continue
        yield wrong(
            "slurm.conf", f"{name}={limit:.0f}, our {what} may take {ours:g} s",
            "Slurm kills the hook before it can say what is wrong, and drains the node with its "
            "own reason", f"{name}={math.ceil(ours + MARGIN_S)}",
        )  # fmt: skip


@about_slurm("message-timeout")
def message_timeout(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Users do not read "Prolog hung" while a prolog is within its deadline."""
    limit, ours = slurm.seconds("MessageTimeout"), facts.settings.config.deadline_s
    if limit is not None and ours > limit - _HUNG_BEFORE_S:
        yield advice(
            "slurm.conf", f"MessageTimeout={limit:.0f}, our prolog may take {ours:g} s",
            f'from {limit - _HUNG_BEFORE_S:.0f} s on users are told "Prolog hung"',
            f"MessageTimeout={math.ceil(ours + _HUNG_BEFORE_S)}, or deadline_s = "
            f"{max(1, limit - _HUNG_BEFORE_S):g} in {facts.settings.path}",
        )  # fmt: skip


@about_slurm("batch-start-timeout")
def batch_start_timeout(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """A batch job is not given up while its prologs run."""
    limit, ours = slurm.seconds("BatchStartTimeout"), facts.settings.config.deadline_s
    if limit is not None and limit < ours:
        yield advice(
            "slurm.conf", f"BatchStartTimeout={limit:.0f}, our prolog may take {ours:g} s",
            "Slurm may count the job as missing and give its nodes back while it is being "
            "prepared", f"BatchStartTimeout={math.ceil(ours + MARGIN_S)}",
        )  # fmt: skip


@about_slurm("unkillable-step-timeout")
def unkillable(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """A step that dies slowly does not drain its node. Bound: slurm.conf(5), 5 × MessageTimeout."""
    limit, message = slurm.seconds("UnkillableStepTimeout"), slurm.seconds("MessageTimeout")
    if limit is None or message is None or limit >= 5 * message:
        return
    yield advice(
        "slurm.conf", f"UnkillableStepTimeout={limit:.0f}, less than five times MessageTimeout",
        "processes that free much GPU memory or write a core die slowly, and the node is drained "
        'with "Kill task failed"', f"UnkillableStepTimeout={max(180, math.ceil(5 * message))}",
    )  # fmt: skip


@about_slurm("slurmd-timeout")
def slurmd_timeout(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """A node that stopped answering is set DOWN, but not for a moment's silence."""
    limit = slurm.seconds("SlurmdTimeout")
    if limit == 0 or limit == math.inf:
        yield advice(
            "slurm.conf", "SlurmdTimeout=0",
            "a node that has died is never set DOWN; its jobs hang until their time limit",
            "SlurmdTimeout=300",
        )  # fmt: skip
    elif limit is not None and limit < 30:
        yield advice(
            "slurm.conf", f"SlurmdTimeout={limit:.0f}",
            "a node that is busy for that long (a driver reset, a full disk) is set DOWN and its "
            "jobs are killed", "SlurmdTimeout=300",
        )  # fmt: skip
