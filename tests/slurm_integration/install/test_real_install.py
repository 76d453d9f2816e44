"""The installed wrappers in a real slurmd's hands."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_integration.sandbox import cluster

sys.path.insert(0, str(Path(__file__).parent))
from site_cluster import SiteCluster, site_cluster

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def up() -> Iterator[SiteCluster]:
    if reason := cluster.why_not():
        pytest.skip(reason)
    with site_cluster() as site:
        yield site


@pytest.fixture
def site(up: SiteCluster) -> SiteCluster:
    up.configure()
    up.calls()
    return up


def test_a_job_runs_through_every_installed_wrapper(site):
    output = site.fly()
    assert "it ran" in output
    assert "flightcheck: node01 is go" in output
    assert (site.state / "nodes/node01/root/var/lib/flightcheck/prolog.json").exists()
    site.wait(lambda: not {"flightcheck-prolog", "flightcheck-epilog"} - set(called(site)))
    assert not site.node().held


CALLED: list[str] = []


def called(site) -> list[str]:
    CALLED.extend(site.calls())
    return CALLED


def test_jobs_go_on_where_the_installation_is_gone(site):
    away = site.state / "away"
    site.programs.rename(away)
    try:
        assert "it ran" in site.fly()
        assert not site.node().held
    finally:
        away.rename(site.programs)


def test_jobs_go_on_where_the_interpreter_is_gone(site):
    for name in ("prolog", "epilog"):
        program = site.programs / f"flightcheck-{name}"
        program.write_text("#!/no/such/python3\n")
    try:
        assert "it ran" in site.fly()
        assert not site.node().held
    finally:
        for name in ("prolog", "epilog"):
            site.put_program(name)


def test_a_sites_prolog_goes_on_running_and_ours_runs_first(site):
    """Slurm runs a glob in reverse order: that is what the name 99-flightcheck counts on."""
    folder = site.state / "prolog.d"
    folder.mkdir()
    script = folder / "50-site"
    script.write_text(f"#!/bin/sh\necho the-site >> {site.state}/calls\n")
    script.chmod(0o755)
    (folder / "99-flightcheck").symlink_to(site.home / "prolog.sh")
    try:
        site.configure(f"Prolog={folder}/*")
        assert "it ran" in site.fly()
        hooks = [name for name in site.calls() if name in ("flightcheck-prolog", "the-site")]
        assert hooks == ["flightcheck-prolog", "the-site"]
        assert not site.node().held
    finally:
        site.configure()
        shutil.rmtree(folder)


def test_uninstall_does_nothing_while_this_slurm_calls_the_wrappers(site):
    # Below --root, slurm.conf names paths as the machine itself would.
    conf = site.state / "named.conf"
    conf.write_text("Prolog=/etc/slurm/flightcheck/prolog.sh\n")
    done = site.flightcheck("uninstall", "--root", str(site.site), "--slurm-conf", str(conf))
    assert done.returncode == 2
    assert "a hook that is gone drains every node" in done.stderr
    assert (site.home / "prolog.sh").exists()
