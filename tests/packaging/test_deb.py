"""The Debian package: installed in a clean Debian without a network, used, upgraded and purged."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# In a mount and network namespace of its own: what is mounted goes with it, and nothing is fetched.
ALONE = ("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c")
pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("debootstrap") is None,
        reason="needs root and debootstrap; on Debian: apt-get install debootstrap",
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """As `make deb` builds it, from a copy of the sources."""
    copy = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    for name in listed.stdout.split("\n"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    python = str(ROOT / ".venv/bin/python")
    subprocess.run(
        [python, "-m", "build", "--quiet", "--wheel", "--outdir", "dist", "."], cwd=copy, check=True
    )
    done = subprocess.run(
        ["bash", "contrib/debian/build.sh", python], cwd=copy, capture_output=True, text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return copy / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def debian():
    """A minimal Debian with the Python that the package was built for."""
    folder = Path(tempfile.mkdtemp(prefix="fc-deb-", dir="/tmp"))
    done = subprocess.run(
        ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", "bookworm",
         str(folder / "root"), *mirror()],
        capture_output=True, text=True,
    )  # fmt: skip
    try:
        if done.returncode:
            pytest.skip(f"no Debian can be had here: {done.stdout[-300:]}{done.stderr[-300:]}")
        (folder / "root/fakeroot").mkdir(exist_ok=True)
        yield folder / "root"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def mirror() -> list[str]:
    """Where this machine's own apt gets Debian from."""
    for path in ("/etc/apt/sources.list", *map(str, Path("/etc/apt/sources.list.d").glob("*"))):
        text = Path(path).read_text() if os.path.isfile(path) else ""
        found = re.search(r"^(?:deb(?: \[[^]]*\])?|URIs:) ?(\S+/debian/?)\s", text, re.MULTILINE)
        if found:
            return [found[1]]
    return []


def within(debian: Path, script: str) -> subprocess.CompletedProcess:
    line = f"mount --bind /proc {debian}/proc && exec chroot {debian} sh -c '{script}'"
    return subprocess.run([*ALONE, line], capture_output=True, text=True, timeout=300, env={
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})  # fmt: skip


def test_the_package_says_what_it_is_and_needs(package):
    shown = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True)
    assert "Package: flightcheck\n" in shown.stdout
    assert re.search(
        r"Depends: python3 \(>= 3\.\d+\), python3 \(<< 3\.\d+\), python3-venv", shown.stdout
    )
    files = subprocess.run(
        ["dpkg-deb", "--contents", package], capture_output=True, text=True
    ).stdout
    assert "torch-" not in files and "SQLAlchemy" not in files  # a site has its own torch
    for part in ("/usr/bin/flightcheck-prolog", "/usr/bin/flightcheck-health",
                 "man1/flightcheck-sweep.1.gz", "man5/flightcheck.toml.5.gz",
                 "bash-completion/completions/flightcheck", "_flightcheck",
                 "flightcheck.fish"):  # fmt: skip
        assert part in files, part
    assert all(" root/root " in line for line in files.splitlines())


def test_it_is_installed_without_a_network_used_upgraded_and_purged(package, debian):
    shutil.copy(package, debian / "flightcheck.deb")
    done = within(debian, "dpkg -i /flightcheck.deb")
    assert done.returncode == 0, done.stdout + done.stderr
    version = within(debian, "flightcheck --version")
    assert version.stdout.startswith("flightcheck, version "), version.stderr
    check = within(debian, "flightcheck check --json")
    assert check.returncode in (0, 1, 3), check.stdout + check.stderr
    assert '"verdict"' in check.stdout
    hook = within(debian, "SLURM_JOB_ID=1 flightcheck-prolog")
    assert hook.returncode == 0 and "flightcheck: " in hook.stdout
    compiled = list(debian.glob("opt/flightcheck-*/lib/**/healthcheck/__pycache__/*.pyc"))
    assert len(compiled) > 20
    again = within(debian, "dpkg -i /flightcheck.deb && flightcheck --version")
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(list(debian.glob("opt/flightcheck-*"))) == 1  # the older venv is gone
    purged = within(debian, "dpkg --purge flightcheck")
    assert purged.returncode == 0, purged.stderr
    places = ("opt/flightcheck*", "usr/bin/flightcheck*", "var/lib/flightcheck",
              "usr/share/flightcheck*")  # fmt: skip
    assert [path for place in places for path in debian.glob(place)] == []
