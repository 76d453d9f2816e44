"""A history on SQLite, and the same on a PostgreSQL of the tests' own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the history needs the extra `fleet`")

from slurm_integration.history.store import Store

_numbers = count()


def _binaries() -> Path | None:
    """Debian keeps the server's programs outside of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).parent if there else None


def _owner() -> dict[str, object]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("postgres" if _has_user("postgres") else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a running server, without a database's name."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    pytest.importorskip("psycopg", reason="PostgreSQL needs psycopg")
    folder = tempfile.mkdtemp(prefix="fc-pg-", dir="/tmp")
    owner = _owner()
    if owner:
        os.chown(folder, owner["user"], owner["group"])
    data = f"{folder}/data"
    environment = {"PATH": f"{binaries}:/usr/bin:/bin", "LC_ALL": "C"}
    subprocess.run(
        [binaries / "initdb", "-D", data, "-A", "trust", "-U", "flightcheck", "--no-sync",
         "-E", "UTF8"],
        check=True, stdout=subprocess.DEVNULL, env=environment, cwd=folder, **owner,
    )  # fmt: skip
    server = subprocess.Popen(
        [binaries / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=",
         "-c", "fsync=off"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=folder, **owner,
    )  # fmt: skip
    url = f"postgresql://flightcheck@/%s?host={folder}"
    try:
        _wait(url % "postgres", server)
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(240)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url: str, server: subprocess.Popen) -> None:
    import psycopg

    until = time.monotonic() + 60
    while True:
        assert server.poll() is None, "PostgreSQL ended at once"
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert time.monotonic() < until, "PostgreSQL did not start"
            time.sleep(0.1)
        else:
            return


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/history.db"
        return
    import psycopg

    server = request.getfixturevalue("postgres")
    name = f"t{next(_numbers)}"
    with psycopg.connect(server % "postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server % name


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store(url) as opened:
        yield opened
