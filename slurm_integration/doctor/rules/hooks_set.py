"""Whether Slurm calls flightcheck at all."""

from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_slurm, advice, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf

PROLOG, EPILOG = "flightcheck-prolog", "flightcheck-epilog"
TASK, HEALTH = "flightcheck-task-prolog", "flightcheck-health"
_SEE = "flightcheck install prints the line"
_LEAST_S, _MOST_S = 60, 3600


def _calls(facts: Facts, hook: str, program: str) -> bool | None:
    """Whether a hook calls our program; None where that can't be seen (no script, a binary)."""
    scripts = [script for one in facts.named(hook) for script in one.scripts]
    if any(program in (p.name for p in script.programs) for script in scripts):
        return True
    readable = [script for script in scripts if not script.problem and not script.binary]
    return False if len(readable) == len(scripts) and scripts else None


@about_slurm("prolog-set")
def prolog_set(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Slurm calls flightcheck-prolog before a job."""
    if not slurm.all("Prolog"):
        yield wrong(
            "slurm.conf", "Prolog is not set", "no node is looked at before a job", _SEE
        )  # fmt: skip
    elif _calls(facts, "Prolog", PROLOG) is False:
        yield wrong(
            "slurm.conf", f"Prolog={slurm.text('Prolog')} does not call {PROLOG}",
            "no node is looked at before a job", _SEE,
        )  # fmt: skip


@about_slurm("epilog-set")
def epilog_set(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Slurm calls flightcheck-epilog after a job."""
    if not slurm.all("Epilog"):
        found = "Epilog is not set"
    elif _calls(facts, "Epilog", EPILOG) is False:
        found = f"Epilog={slurm.text('Epilog')} does not call {EPILOG}"
    else:
        return
    yield advice("slurm.conf", found, "nobody learns why a job died, or which node it was", _SEE)


@about_slurm("called-twice")
def called_twice(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Slurm calls each of our hooks once: since 24.05 two lines of one name both run."""
    for name, program in (("Prolog", PROLOG), ("Epilog", EPILOG)):
        scripts = [script for one in facts.named(name) for script in one.scripts]
        ours = [s.path for s in scripts if program in (p.name for p in s.programs)]
        if len(ours) > 1:
            yield advice(
                "slurm.conf", f"{name} calls {program} {len(ours)} times ({', '.join(ours)})",
                "every job waits for each of them", f"leave one of them in {name}",
            )  # fmt: skip


@about_slurm("task-prolog-set")
def task_prolog_set(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Slurm calls flightcheck-task-prolog before a task."""
    if not slurm.all("TaskProlog"):
        found = "TaskProlog is not set"
    elif _calls(facts, "TaskProlog", TASK) is False:
        found = f"TaskProlog={slurm.text('TaskProlog')} does not call {TASK}"
    else:
        return
    yield advice(
        "slurm.conf", found,
        "PyTorch's flight recorder is not armed, and no rank is mapped to its GPU", _SEE,
    )  # fmt: skip


@about_slurm("health-program")
def health_program(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Slurm calls flightcheck-health between jobs."""
    value = slurm.text("HealthCheckProgram")
    if not value:
        found, mend = "HealthCheckProgram is not set", _SEE
    elif _calls(facts, "HealthCheckProgram", HEALTH) is False:
        found = f"HealthCheckProgram={value} does not call {HEALTH}"
        mend = f"call {HEALTH} from {value}: Slurm has room for one program only"
    else:
        return
    yield advice("slurm.conf", found, "a node that falls sick between jobs is found late", mend)


@about_slurm("health-interval")
def health_interval(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """The health program runs, neither all the time nor hardly ever."""
    every = slurm.seconds("HealthCheckInterval")
    if not slurm.text("HealthCheckProgram") or every is None:
        return
    if every == 0:
        yield wrong(
            "slurm.conf", "HealthCheckInterval=0", "the health program is set but never runs",
            "HealthCheckInterval=300",
        )  # fmt: skip
    elif not _LEAST_S <= every <= _MOST_S:
        why = (
            "it takes time from jobs, and a run may last up to Slurm's 60 s"
            if every < _LEAST_S else "a sick node is found an hour late"
        )  # fmt: skip
        yield advice(
            "slurm.conf", f"HealthCheckInterval={every:.0f}", why, "HealthCheckInterval=300"
        )


@about_slurm("health-node-state")
def health_node_state(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """The health program looks at idle nodes."""
    if not slurm.text("HealthCheckProgram"):
        return
    looked = ("ANY", "IDLE", "NONDRAINED_IDLE")
    if not any(slurm.has("HealthCheckNodeState", state) for state in looked):
        found = slurm.text("HealthCheckNodeState")
        yield advice(
            "slurm.conf", f"HealthCheckNodeState={found}",
            "idle nodes are never looked at, and they are where the next job goes",
            "HealthCheckNodeState=ANY,CYCLE",
        )  # fmt: skip
