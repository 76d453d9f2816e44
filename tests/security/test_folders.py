"""Root's folders: nobody else can put a file there, and where somebody can, root does not write."""

import os
import stat

import pytest

from epilog.decide import store as suspicions
from epilog.state import keep_report
from healthcheck import event_log
from healthcheck.baseline import load_baseline, save_baseline
from healthcheck.model import Baseline
from healthcheck.node_event import NodeEvent
from healthcheck.own_folder import own_folder
from slurm_integration.hook import leave_file
from slurm_integration.requalify.store import Store, StoreError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose")
USER = 23_456
EVENT = NodeEvent("0" * 32, 1.0, "node01", "finding")


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("umask", [0, 0o22, 0o77, 0o777])
def test_a_new_folder_is_roots_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        own_folder(str(tmp_path / "a/b/state"))
        assert save_baseline(str(tmp_path / "a/b/state"), Baseline()) is None
        assert event_log.record(str(tmp_path / "a/b/state"), [EVENT]) is None
    finally:
        os.umask(before)
    assert mode(tmp_path / "a/b/state") == 0o700
    assert not (mode(tmp_path / "a/b") | mode(tmp_path / "a")) & 0o022
    assert {mode(p) for p in (tmp_path / "a/b/state").iterdir()} <= {0o600, 0o600 & ~umask}


def given_away(folder, kind: str) -> None:
    folder.mkdir()
    if kind == "a user's":
        os.chown(folder, USER, USER)
    elif kind == "writable by a group":
        os.chown(folder, 0, USER)
        folder.chmod(0o770)
    else:
        folder.chmod(0o777)


KINDS = ["a user's", "writable by a group", "writable by all"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_others_can_change_is_refused_in_words(tmp_path, kind):
    given_away(tmp_path / "state", kind)
    with pytest.raises(PermissionError) as refusal:
        own_folder(str(tmp_path / "state"))
    assert "expected a folder that only root can change" in refusal.value.strerror
    assert f"chown root:root {tmp_path}/state" in refusal.value.strerror


@pytest.mark.parametrize("kind", KINDS)
def test_no_state_is_read_from_or_written_to_such_a_folder(tmp_path, kind):
    """Not even through second names that a user has laid out for us."""
    folder, secret = tmp_path / "state", tmp_path / "secret"
    secret.write_text("root's own\n")
    save_baseline(str(folder), Baseline(profile="cpu-only"))
    given_away(tmp_path / "other", kind)
    for name in ("baseline.json", "events.log", "suspicions.json", "prolog.json"):
        os.link(secret, tmp_path / "other" / name)
    other = str(tmp_path / "other")
    found, note = load_baseline(other)
    assert found is None
    assert note is not None
    assert "only root can change" in note
    assert "only root can change" in (save_baseline(other, Baseline()) or "")
    assert "only root can change" in (event_log.record(other, [EVENT]) or "")
    assert "only root can change" in (event_log.replace_file(f"{other}/x", b"x") or "")
    assert "only root can change" in (suspicions.load(other)[1] or "")
    assert "only root can change" in (suspicions.update(other, lambda kept: kept)[1] or "")
    assert "only root can change" in (keep_report(other, 4711, b"x", "x", 10) or "")
    leave_file(f"{other}/prolog.json", b"x")
    with pytest.raises(StoreError, match="only root can change"), Store(other).locked():
        pass
    assert secret.read_text() == "root's own\n"
    assert sorted(os.listdir(other)) == [
        "baseline.json",
        "events.log",
        "prolog.json",
        "suspicions.json",
    ]


def test_a_prolog_with_such_a_state_folder_says_so_and_lets_the_job_run(h100, job):
    os.chown(h100.state, USER, USER)
    done = h100.run("flightcheck-prolog", **job)
    assert done.returncode == 0
    assert "only root can change" in done.stdout
    assert "flightcheck: go node01" in done.stdout


def test_what_our_commands_leave_on_a_node_is_roots_alone(h100, job):
    h100.run("flightcheck-prolog", **job)
    h100.run("flightcheck-epilog", **job)
    left = [p for p in h100.state.rglob("*") if p.is_file() and p.name != "baseline.json"]
    assert left
    assert {mode(path) for path in left} == {0o600}
