import subprocess
import sys

import pytest

from slurm_integration.job_env import MAX_SPANK, MAX_VALUE, read_job

PROLOG_2205 = {
    "SLURMD_NODENAME": "node02",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURM_JOB_ID": "4711",
    "SLURM_JOBID": "4711",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_GID": "1001",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_ACCOUNT": "lab",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_COMMENT": "skip=no a b",
    "SLURM_JOB_WORK_DIR": "/home/ada",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_JOB_RESTART_COUNT": "1",
    "SLURM_JOB_STDIN": "/dev/null",
    "SLURM_JOB_STDOUT": "/home/ada/slurm-%j.out",
    "SLURM_NODELIST": "node[01-02]",
    "SLURM_JOB_GPUS": "0,1,4-6",
    "CUDA_VISIBLE_DEVICES": "0,1,4,5,6",
    "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
    "SPANK_FLIGHTCHECK": "off",
}


def test_prolog_of_22_05():
    job = read_job(PROLOG_2205)
    assert (job.job_id, job.uid, job.gid, job.user) == (4711, 1000, 1001, "ada")
    assert (job.account, job.partition, job.comment) == ("lab", "gpu", "skip=no a b")
    assert (job.work_dir, job.nodelist, job.num_nodes) == ("/home/ada", "node[01-02]", 2)
    assert (job.node_name, job.restart_count) == ("node02", 1)
    assert job.gpu_minors == (0, 1, 4, 5, 6)
    assert job.gpu_uuids is None
    assert job.script_context == "prolog_slurmd"
    assert job.spank == {"SPANK_FLIGHTCHECK": "off"}
    assert (job.stdin, job.stdout, job.stderr) == ("/dev/null", "/home/ada/slurm-%j.out", None)
    assert (job.exit_code, job.exit_signal, job.derived_exit_code) == (None, None, None)
    assert job.odd == ()


def test_node_list_of_23_02_and_later():
    job = read_job({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-3]"})
    assert job.nodelist == "n[1-3]"


def test_no_job_outside_of_a_hook():
    assert read_job({"SLURMD_NODENAME": "node01"}) is None
    assert read_job({"SLURM_JOB_ID": "not a number"}) is None


@pytest.mark.parametrize(
    ("status", "pair", "code", "signal"),
    [
        ("0", "0:0", 0, 0),
        ("256", "1:0", 1, 0),
        ("9", "0:9", 0, 9),
        ("64768", "0:125", 0, 125),  # out of memory, as Slurm tells it
        ("1029632", "0:54", 0, 54),  # 4022: the prolog failed (23.11+)
        ("256", None, 1, 0),
        ("9", None, 0, 9),
        (None, None, None, None),
        ("x", "y", None, None),
        ("256", "1", 1, 0),
    ],
)
def test_exit_of_an_epilog(status, pair, code, signal):
    env = {"SLURM_JOB_ID": "1"}
    env |= {"SLURM_JOB_EXIT_CODE": status} if status is not None else {}
    env |= {"SLURM_JOB_EXIT_CODE2": pair} if pair is not None else {}
    job = read_job(env)
    assert (job.exit_code, job.exit_signal) == (code, signal)


@pytest.mark.parametrize(("given", "expected"), [("0", 0), ("768", 3), ("35584", 139), ("9", 137)])
def test_derived_exit_code(given, expected):
    job = read_job({"SLURM_JOB_ID": "1", "SLURM_JOB_DERIVED_EC": given})
    assert job.derived_exit_code == expected


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ("0", (0,)),
        ("7,3", (3, 7)),
        ("0-7", tuple(range(8))),
        ("", None),
        ("0,,1", None),
        ("3-1", None),
        ("0-99999999999", None),
        ("-1", None),
        ("GPU-aaaa", None),
        ("٣", None),
        (",".join(["1"] * 5000), None),
    ],
)
def test_gpu_minors(gpus, expected):
    job = read_job({"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": gpus})
    assert job.gpu_minors == expected
    assert bool(job.odd) == (expected is None and gpus != "")


def test_mig_and_gpu_uuids_come_from_cuda_visible_devices():
    uuids = "MIG-0d3c1b9e-0000-5000-8000-000000000001,GPU-7f0d"
    job = read_job({"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": uuids})
    assert job.gpu_uuids == tuple(uuids.split(","))
    assert read_job({"SLURM_JOB_ID": "1", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}).gpu_uuids is None


@pytest.mark.parametrize(
    "name",
    ["SLURM_JOB_UID", "SLURM_JOB_GID", "SLURM_JOB_NUM_NODES", "SLURM_JOB_RESTART_COUNT"],
)
@pytest.mark.parametrize("value", ["-1", "1.5", "0x1", " 1", "9" * 5000, "\udcff", "1\n2"])
def test_bad_numbers_become_none_and_are_noted(name, value):
    job = read_job({"SLURM_JOB_ID": "1", name: value})
    assert (job.uid, job.gid, job.num_nodes, job.restart_count) == (None, None, None, 0)
    (note,) = job.odd
    assert note.startswith(f"{name}: expected a whole number, found ")
    assert note.isprintable()


def test_texts_are_bounded_and_free_of_escapes():
    job = read_job(
        {"SLURM_JOB_ID": "1", "SLURM_JOB_COMMENT": "x" * 9999, "SLURM_JOB_USER": "\x1b[31mme\n"}
    )
    assert len(job.comment) == MAX_VALUE
    assert job.user == "?[31mme?"
    assert len(job.odd) == 1


def test_spank_variables_are_bounded():
    job = read_job({"SLURM_JOB_ID": "1", **{f"SPANK_{i}": "v" for i in range(1000)}})
    assert len(job.spank) == MAX_SPANK
    assert len(job.odd) == 1


def test_import_is_cheap_enough_for_every_prolog():
    script = (
        "import sys, msgspec; import healthcheck.model.job; before = set(sys.modules);"
        "import slurm_integration.job_env; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["slurm_integration", "slurm_integration.job_env"]
