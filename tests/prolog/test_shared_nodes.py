"""Several jobs on one node: a job fails for its own GPUs and for the node, not for another's."""

import re
import subprocess
from pathlib import Path

import pytest

from healthcheck.host import host_at
from healthcheck.runner import Request, run
from slurm_integration.job_env import read_job
from slurm_integration.shared_nodes import spares

SCONTROL = """\
#!/bin/sh
case "$*" in
*"show node"*) echo "NodeName=node01 State=IDLE Comment=$(cat {folder}/comment 2>/dev/null) Reason="
  i=2; while [ $i -le 40 ]; do echo "NodeName=n$i State=IDLE"; i=$((i+1)); done ;;
*update*) echo "$*" >> {folder}/updates
  for w in "$@"; do
    case "$w" in Comment=*) echo "${{w#Comment=}}" > {folder}/comment ;; esac
  done ;;
esac
"""


@pytest.fixture
def slurm(h100, tmp_path):
    """A Slurm that drains whatever it is asked to."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(SCONTROL.format(folder=tmp_path))
    scontrol.chmod(0o755)
    h100.configure(f'dry_run = false\n[drain]\njitter_s = 0\nscontrol = "{scontrol}"\n')
    return tmp_path


def prolog(node, gpus: str | None, job: dict, **more: str) -> subprocess.CompletedProcess:
    env = {name: value for name, value in job.items() if name != "SLURM_JOB_GPUS"}
    if gpus is not None:
        env["SLURM_JOB_GPUS"] = gpus
    return node.run("flightcheck-prolog", **env, **more, FLIGHTCHECK_CONFIG=str(node.config))


def minor_of(node, fault_check: str, job: dict) -> int:
    """The minor number of the GPU that a finding of this check names."""
    facts = run(Request(host_at(str(node.root)), job=read_job(job), remember=False))
    subject = next(f.subject for check, f in facts.report.findings() if check == fault_check)
    return next(g.minor_number for g in facts.snapshot.gpus if g.bus_id == subject)


def drained(slurm: Path) -> bool:
    return "State=DRAIN" in (slurm / "updates").read_text()


def test_another_jobs_gpu_drains_the_node_and_this_job_runs(h100, slurm, job):
    h100.break_("ecc-uncorrected")
    sick = minor_of(h100, "gpu-ecc", job)
    others = ",".join(str(minor) for minor in range(8) if minor != sick)
    done = prolog(h100, others, job)
    assert done.returncode == 0, done.stdout
    assert "none of this is about the job's own GPUs" in done.stdout
    assert drained(slurm)


def test_its_own_gpu_fails_the_job(h100, slurm, job):
    h100.break_("ecc-uncorrected")
    done = prolog(h100, str(minor_of(h100, "gpu-ecc", job)), job)
    assert done.returncode == 75
    assert drained(slurm)


@pytest.mark.parametrize("fault", ["ib-flap", "nvml-hang"])
def test_what_concerns_the_node_as_a_whole_fails_every_job(fault, h100, slurm, job):
    h100.break_(fault)
    done = prolog(h100, "0", job)
    assert done.returncode == 75, done.stdout


def test_a_lost_gpu_of_another_job_spares_this_one_and_its_own_does_not(h100, slurm, job):
    h100.break_("xid-79")
    seen = run(Request(host_at(str(h100.root)), remember=False)).snapshot
    alive = [gpu.minor_number for gpu in seen.gpus if gpu.minor_number is not None]
    lost = next(minor for minor in range(8) if minor not in alive)
    done = prolog(h100, ",".join(map(str, alive)), job)
    assert (done.returncode, drained(slurm)) == (0, True), done.stdout
    assert prolog(h100, str(lost), job).returncode == 75


@pytest.mark.parametrize(
    ("gpus", "visible"),
    [
        (None, None),
        (None, "MIG-4c1b6a5e-1111-2222-3333-444455556666"),
        ("0", "MIG-x"),
        ("0,40", None),
    ],
)
def test_where_it_is_not_known_whose_gpus_they_are_the_job_goes_elsewhere(
    gpus, visible, h100, slurm, job
):
    h100.break_("ecc-uncorrected")
    more = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
    assert prolog(h100, gpus, job, **more).returncode == 75


def test_leftovers_of_another_job_are_not_held_against_this_one(h100, job):
    """Processes and memory on GPUs that the job does not own are their owner's business."""
    facts = run(Request(host_at(str(h100.root)), stage="prolog", job=read_job({
        **job, "SLURM_JOB_GPUS": "0,1"})))  # fmt: skip
    assert [gpu.minor_number for gpu in facts.snapshot.owned_gpus()] == [0, 1]
    h100.break_("foreign-process")
    owner = run(Request(host_at(str(h100.root)), stage="prolog", job=read_job(job))).report
    named = [f.subject for check, f in owner.findings() if check == "gpu-leftovers"]
    assert named
    seen = run(Request(host_at(str(h100.root)), remember=False)).snapshot
    sick = {g.minor_number for g in seen.gpus if g.bus_id in named}
    others = ",".join(str(minor) for minor in range(8) if minor not in sick)
    other = run(Request(host_at(str(h100.root)), stage="prolog", job=read_job({
        **job, "SLURM_JOB_GPUS": others}))).report  # fmt: skip
    assert not [f for check, f in other.findings() if check == "gpu-leftovers"]


KINDS = {
    "array": {"SLURM_ARRAY_JOB_ID": "4700", "SLURM_ARRAY_TASK_ID": "11"},
    "heterogeneous": {"SLURM_HET_JOB_ID": "4700", "SLURM_HET_JOB_OFFSET": "1"},
    "salloc": {"SLURM_JOB_STDOUT": "", "SLURM_JOB_STDERR": ""},
    "no GPUs": {"SLURM_JOB_GPUS": ""},
    "older names": {"SLURM_JOBID": "4711", "SLURM_NODELIST": "node[01-02]"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_job_flies_from_a_healthy_node(kind, h100, job):
    done = h100.run("flightcheck-prolog", **{**job, **KINDS[kind]})
    assert (done.returncode, done.stderr) == (0, "")
    assert "go node01" in done.stdout


def calls(h100, trace: Path, env: dict[str, str]) -> int:
    """System calls of a whole prolog, its children included, but for waiting."""
    script = Path(h100.environment()["PATH"].split(":")[0]) / "flightcheck-prolog"
    subprocess.run(["strace", "-f", "-c", "-o", str(trace), str(script)],
                   env=h100.environment(**env), check=True, capture_output=True)  # fmt: skip
    counted = 0
    for line in trace.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[-1] not in (
            "total",
            "poll",
            "wait4",
            "futex",
            "read",
            "write",
        ):
            counted += int(fields[3]) if re.fullmatch(r"\d+", fields[3]) else 0
    return counted


def test_the_cost_does_not_grow_with_the_size_of_the_job(h100, job, tmp_path):
    """Counted in system calls: time says nothing on a shared machine."""
    small = {**job, "SLURM_JOB_NODELIST": "node01", "SLURM_JOB_NUM_NODES": "1"}
    large = {
        **job,
        "SLURM_JOB_NODELIST": "node[01-512]",
        "SLURM_JOB_NUM_NODES": "512",
        "SLURM_JOB_CPUS_PER_NODE": "128(x512)",
    }
    h100.run("flightcheck-prolog", **small)
    few = calls(h100, tmp_path / "small", small)
    many = calls(h100, tmp_path / "large", large)
    assert few > 1000
    assert many < few * 1.02


def test_spares_says_no_where_there_is_no_job(h100):
    seen = run(Request(host_at(str(h100.root)), remember=False))
    assert spares((), seen.snapshot) is False
