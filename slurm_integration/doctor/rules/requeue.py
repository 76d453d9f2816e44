"""What Slurm does with a job whose prolog failed."""

from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_slurm, advice, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf

NOHOLD = "nohold_on_prolog_fail"
_LEAST_EXPIRE_S = 5
"""Less is refused and means 120, as the sandbox shows with a real slurmctld."""
_LONG_EXPIRE_S = 300


def mended_scheduler(slurm: SlurmConf) -> str:
    """SchedulerParameters with what we want beside what is there."""
    return "SchedulerParameters=" + ",".join([*slurm.words("SchedulerParameters"), NOHOLD])


@about_slurm("hold-on-prolog-fail")
def hold(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """A job whose prolog failed is requeued without being held."""
    if not slurm.has("SchedulerParameters", NOHOLD):
        yield wrong(
            "slurm.conf", f"SchedulerParameters lacks {NOHOLD}",
            "a job that meets a sick node is requeued and held: its owner waits until somebody "
            "releases it", mended_scheduler(slurm),
        )  # fmt: skip


@about_slurm("job-requeue")
def requeue(slurm: SlurmConf, _: Facts) -> Iterator[Complaint]:
    """Jobs may be requeued unless they say otherwise."""
    if slurm.text("JobRequeue") == "0" and not slurm.has("PrologFlags", "ForceRequeueOnFail"):
        yield advice(
            "slurm.conf", "JobRequeue=0",
            "a job without --requeue that meets a sick node dies in place of running elsewhere",
            "JobRequeue=1",
        )  # fmt: skip


@about_slurm("cred-expire")
def cred_expire(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """A requeued job does not wait longer than it must, and credentials outlive the prolog."""
    text = slurm.option("AuthInfo", "cred_expire")
    if not text.isdigit():
        return
    value, needed = int(text), int(facts.settings.config.deadline_s) + 10
    others = [word for word in slurm.words("AuthInfo") if not word.startswith("cred_expire")]
    mend = "AuthInfo=" + ",".join([*others, f"cred_expire={max(60, needed)}"])
    if value < _LEAST_EXPIRE_S:
        yield wrong(
            "slurm.conf", f"AuthInfo has cred_expire={value}",
            f"Slurm takes less than {_LEAST_EXPIRE_S} for the default, 120 s: a job whose prolog "
            "failed waits that long", mend,
        )  # fmt: skip
    elif value < facts.settings.config.deadline_s:
        yield wrong(
            "slurm.conf", f"AuthInfo has cred_expire={value}, the prolog may take "
            f"{facts.settings.config.deadline_s:g} s",
            "a credential that expires during the prolog makes the job's launch fail", mend,
        )  # fmt: skip
    elif value > _LONG_EXPIRE_S:
        yield advice(
            "slurm.conf", f"AuthInfo has cred_expire={value}",
            f"a job whose prolog failed waits {value + 1} s before it may start elsewhere", mend,
        )  # fmt: skip
