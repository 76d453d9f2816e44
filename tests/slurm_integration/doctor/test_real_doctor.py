"""The doctor on a real cluster: silent on a good one, and each planted mistake is found."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_integration.sandbox import cluster

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(Path(__file__).parents[1] / "install"))
from site_cluster import CONFIG, SiteCluster, site_cluster  # noqa: E402

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def site() -> Iterator[SiteCluster]:
    if reason := cluster.why_not():
        pytest.skip(reason)
    packages = [
        str(ROOT / name) for name in ("healthcheck", "prolog", "epilog", "slurm_integration")
    ]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], check=True)
    with site_cluster() as up:
        yield up


def doctor(site: SiteCluster, **env: str) -> tuple[int, dict[str, list[str]]]:
    """The exit code, and the rules that complained with the subjects they named."""
    done = site.flightcheck("doctor", "--json", **env)
    assert "Traceback" not in done.stderr, done.stderr
    found: dict[str, list[str]] = {}
    for one in json.loads(done.stdout)["complaints"]:
        found.setdefault(one["rule"], []).append(f"{one['level']} {one['subject']}: {one['what']}")
    return done.returncode, found


def test_a_good_cluster_is_clean(site):
    site.configure()
    code, found = doctor(site)
    assert found == {}
    assert code == 0


LINES = {
    "PrologFlags=Contain,DeferBatch": None,  # Contain brings Alloc along
    "PrologFlags=DeferBatch": "prolog-flags",
    "PrologFlags=Alloc,Contain": "prolog-flags",
    "PrologFlags=Alloc,Contain,DeferBatch,Serial": "prolog-serial",
    "SchedulerParameters=bf_interval=30": "hold-on-prolog-fail",
    "JobRequeue=0": "job-requeue",
    "PrologEpilogTimeout=6": "prolog-epilog-timeout",
    "MessageTimeout=7": "message-timeout",
    "BatchStartTimeout=3": "batch-start-timeout",
    "UnkillableStepTimeout=10": "unkillable-step-timeout",
    "SlurmdTimeout=5": "slurmd-timeout",
    "HealthCheckInterval=5": "health-interval",
    "HealthCheckNodeState=ALLOC": "health-node-state",
    "HealthCheckProgram=/bin/true": None,  # a binary: nobody can see what it calls
    "ReturnToService=2": "return-to-service",
    "Prolog=STATE/none.d/*": "empty-glob",
    "Prolog=STATE/none": "hook-missing",
    "Epilog=STATE/none": "hook-missing",
    "TaskProlog=STATE/none": "hook-missing",
}
"""A line for slurm.conf, and the rule that has to find it."""


@pytest.mark.parametrize("line", LINES)
def test_a_mistake_in_slurm_conf_is_found(site, line):
    site.configure(line.replace("STATE", str(site.state)))
    code, found = doctor(site)
    expected = LINES[line]
    assert set(found) == ({expected} if expected else set()), found
    assert code == (0 if expected is None else code)
    if expected:
        assert code == (2 if any(t.startswith("wrong") for t in found[expected]) else 1)


def planted(site: SiteCluster) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Rule → (plant it, take it away)."""
    prolog, task = site.home / "prolog.sh", site.home / "task-prolog.sh"
    config, gres = site.state / "flightcheck.toml", site.state / "etc/gres.conf"
    plugstack = site.state / "etc/plugstack.conf"
    text, devices = prolog.read_text(), gres.read_text()
    memory = site.state / "nodes/node01/root/var/lib/flightcheck"
    shell = "#!/bin/sh\n"

    def write(path: Path, new: str) -> Callable[[], object]:
        return lambda: path.write_text(new)

    def mode(path: Path, bits: int) -> Callable[[], object]:
        return lambda: path.chmod(bits)

    lost = text.replace(str(site.programs), "/opt/gone")
    return {
        "prolog-set": (write(prolog, f"{shell}exit 0\n"), write(prolog, text)),
        "hook-not-executable": (mode(prolog, 0o644), mode(prolog, 0o755)),
        "hook-owner": (mode(prolog, 0o777), mode(prolog, 0o755)),
        "hook-interpreter": (write(prolog, text.replace("#!/bin/sh", "")), write(prolog, text)),
        "hook-home": (write(prolog, text.replace("HOME=", "HOUSE=")), write(prolog, text)),
        "hook-program": (write(prolog, lost), write(prolog, text)),
        "task-prolog-readable": (mode(task, 0o700), mode(task, 0o755)),
        "dry-run": (write(config, CONFIG.replace("false", "true")), write(config, CONFIG)),
        "config-refused": (write(config, "no_such_key = 1\n"), write(config, CONFIG)),
        "config-owner": (mode(config, 0o666), mode(config, 0o644)),
        "folders": (mode(memory, 0o777), mode(memory, 0o700)),
        "gres-devices": (write(gres, "Name=gpu Count=8\n"), write(gres, devices)),
        "spank-file": (
            write(plugstack, "optional /no/flightcheck.so\n"), write(plugstack, "")),
    }  # fmt: skip


PLANTED = ("prolog-set", "hook-not-executable", "hook-owner", "hook-interpreter", "hook-home",
           "hook-program", "task-prolog-readable", "dry-run", "config-refused", "config-owner",
           "folders", "gres-devices", "spank-file")  # fmt: skip


@pytest.mark.parametrize("rule", PLANTED)
def test_a_mistake_on_the_node_is_found(site, rule):
    site.configure()
    plant, heal = planted(site)[rule]
    plant()
    try:
        code, found = doctor(site)
    finally:
        heal()
    assert set(found) == {rule}, found
    assert code in (1, 2)
    assert doctor(site)[0] == 0


def test_a_second_installation_is_found(site, tmp_path):
    other = tmp_path / "flightcheck"
    other.write_text(f"#!{tmp_path}/venv/bin/python3\n")
    other.chmod(0o755)
    site.configure()
    code, found = doctor(site, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert set(found) == {"two-installations"}
    assert code == 2


def test_a_plugin_of_another_release_is_found(site, tmp_path):
    source = tmp_path / "p.c"
    source.write_text(
        'const char plugin_type[] = "spank";\nconst unsigned int plugin_version = 0x150805;\n'
    )
    library = tmp_path / "flightcheck.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    plugstack = site.state / "etc/plugstack.conf"
    site.configure()
    plugstack.write_text(f"optional {library}\n")
    try:
        code, found = doctor(site)
    finally:
        plugstack.write_text("")
    assert set(found) == {"spank-release"}
    assert "21.08" in found["spank-release"][0]
    assert code == 2


def test_a_munge_that_is_gone_is_found(site):
    """Slurm can't be asked then, so the file is judged in its place."""
    site.configure()
    socket = site.state / "munge/socket"
    aside = socket.with_name("aside")
    socket.rename(aside)
    try:
        done = site.flightcheck("doctor", "--json", "--slurm-conf", str(site.conf))
        asked = site.flightcheck("doctor", "--json")
    finally:
        aside.rename(socket)
    assert "munge" in {one["rule"] for one in json.loads(done.stdout)["complaints"]}
    assert "slurm-reachable" in {one["rule"] for one in json.loads(asked.stdout)["complaints"]}


def test_slurm_conf_itself_gives_the_same_answer_as_scontrol(site):
    site.configure("JobRequeue=0")
    shown = json.loads(site.flightcheck("doctor", "--json").stdout)["complaints"]
    written = site.flightcheck("doctor", "--json", "--slurm-conf", str(site.conf)).stdout
    assert json.loads(written)["complaints"] == shown
    site.configure()
