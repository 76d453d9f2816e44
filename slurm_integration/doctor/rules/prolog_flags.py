"""PrologFlags: when prologs run, and who waits for them. Facts: slurm.conf(5)."""

from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_slurm, advice, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf

WANTED = ("Alloc", "Contain", "DeferBatch")
_TRAPS = ("Serial", "RunInJob")
_WHY = {
    "Alloc": "a node is looked at only when its first step starts, not before the job flies",
    "DeferBatch": "the batch script starts when the first node's prolog has ended, on nodes that "
    "were not judged yet",
    "Contain": "without a container for the whole job the epilog can't tell the job's leftovers "
    "from others' processes",
}


def mended(slurm: SlurmConf) -> str:
    """The line that has all flags wanted, the site's own ones kept, the traps left out."""
    kept = [word for word in slurm.words("PrologFlags") if word.lower() not in _lower(_TRAPS)]
    have = {word.lower() for word in kept}
    # Contain implies Alloc, and X11 implies both; written out they are easier to read.
    return "PrologFlags=" + ",".join([*kept, *(w for w in WANTED if w.lower() not in have)])


def missing(slurm: SlurmConf) -> list[str]:
    """The flags wanted that are not in force."""
    given = {word.lower() for word in slurm.words("PrologFlags")}
    if "x11" in given:
        given |= {"contain"}
    if "contain" in given:
        given |= {"alloc"}
    return [word for word in WANTED if word.lower() not in given]


def _lower(words: tuple[str, ...]) -> set[str]:
    return {word.lower() for word in words}


@about_slurm("prolog-flags")
def prolog_flags(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """Alloc, Contain and DeferBatch are set."""
    found = slurm.text("PrologFlags") or "nothing"
    for flag in missing(slurm):
        tell = advice if flag == "Contain" else wrong
        yield tell(
            "slurm.conf", f"PrologFlags lacks {flag} (found {found})", _WHY[flag], mended(slurm)
        )


@about_slurm("prolog-run-in-job")
def run_in_job(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """RunInJob is not set."""
    if slurm.has("PrologFlags", "RunInJob"):
        yield wrong(
            "slurm.conf", "PrologFlags has RunInJob",
            "the epilog then always sees exit code 0 (24.05 to 26.05), so that no failed job is "
            "recognised", mended(slurm),
        )  # fmt: skip


@about_slurm("prolog-serial")
def serial(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """Serial is not set."""
    if slurm.has("PrologFlags", "Serial"):
        yield advice(
            "slurm.conf", "PrologFlags has Serial",
            "hooks of a node wait for each other: the epilog of one failed job holds up the "
            "prolog of the next", mended(slurm),
        )  # fmt: skip
