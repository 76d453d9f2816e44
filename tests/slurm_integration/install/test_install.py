"""`flightcheck install` and `uninstall`: repeatable, and nothing of the site's is lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from slurm_integration.install.disk import Disk
from slurm_integration.install.model import InstallError

WRAPPERS = ("prolog.sh", "epilog.sh", "task-prolog.sh", "health.sh")


def test_everything_is_put_in_place_with_its_mode_whatever_the_umask(machine):
    before = os.umask(0o077)
    try:
        assert machine.install().code == 0
    finally:
        os.umask(before)
    for name in WRAPPERS:
        assert (machine.home / name).stat().st_mode & 0o777 == 0o755
    assert machine.home.stat().st_mode & 0o777 == 0o755
    assert (machine.root / "etc/flightcheck/flightcheck.toml").stat().st_mode & 0o777 == 0o644
    units = {path.name for path in (machine.root / "etc/systemd/system").iterdir()}
    assert units == {f"flightcheck-{job}.{kind}" for job in ("collect", "requalify")
                     for kind in ("service", "timer")}  # fmt: skip


def test_a_second_run_has_nothing_to_do(machine):
    machine.install()
    before = machine.tree()
    answer = machine.install()
    assert answer.code == 0
    assert "nothing to do" in answer.out
    assert machine.tree() == before


def test_a_dry_run_shows_every_file_and_changes_nothing(machine):
    before = machine.tree()
    answer = machine.install("--dry-run", "--diff")
    assert answer.code == 0
    assert "+++ /etc/slurm/flightcheck/prolog.sh" in answer.out
    assert "+exec " in answer.out
    assert machine.tree() == before


def test_uninstall_takes_back_exactly_what_install_put_there(machine):
    (machine.root / "etc/systemd").mkdir()
    before = machine.tree()
    machine.install()
    assert machine.uninstall("--dry-run").code == 0
    assert (machine.home / "prolog.sh").exists()
    assert machine.uninstall().code == 0
    assert machine.tree() == before


def test_uninstall_without_an_install_is_no_error(machine):
    answer = machine.uninstall()
    assert answer.code == 0
    assert "nothing of flightcheck's" in answer.out


def test_a_file_changed_by_hand_is_kept_and_its_difference_shown(machine):
    machine.install()
    prolog = machine.home / "prolog.sh"
    prolog.write_text("#!/bin/sh\n# ours, says the site\nexit 0\n")
    answer = machine.install()
    assert answer.code == 1
    assert "changed by hand" in answer.out
    assert "-# ours, says the site" in answer.out
    assert "ours, says the site" in prolog.read_text()

    assert "kept" in machine.uninstall().out
    assert "ours, says the site" in prolog.read_text()
    assert not (machine.home / "epilog.sh").exists()
    assert not (machine.root / "etc/systemd").exists()


def test_force_replaces_a_changed_file_and_keeps_a_copy_where_no_glob_finds_it(machine):
    machine.install()
    prolog = machine.home / "prolog.sh"
    ours = prolog.read_bytes()
    prolog.write_text("theirs\n")
    answer = machine.install("--force")
    assert answer.code == 0
    assert prolog.read_bytes() == ours
    saved = list((machine.home / "saved").iterdir())
    assert [path.read_text() for path in saved] == ["theirs\n"]
    assert saved[0].stat().st_mode & 0o111 == 0
    machine.uninstall()
    assert saved[0].read_text() == "theirs\n"


def test_a_file_that_was_there_before_is_neither_overwritten_nor_removed(machine):
    path = machine.root / "etc/logrotate.d/flightcheck"
    path.parent.mkdir()
    path.write_text("the site's own\n")
    answer = machine.install()
    assert answer.code == 1
    assert "was here before" in answer.out
    machine.uninstall()
    assert path.read_text() == "the site's own\n"


def test_the_same_file_by_somebody_else_stays_theirs(machine):
    machine.install()
    path = machine.root / "etc/tmpfiles.d/flightcheck.conf"
    text = path.read_bytes()
    machine.again()
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    assert machine.install().code == 0
    machine.uninstall()
    assert path.read_bytes() == text


def test_the_sites_configuration_is_never_touched_once_it_is_changed(machine):
    machine.install()
    config = machine.root / "etc/flightcheck/flightcheck.toml"
    config.write_text("dry_run = false\n")
    assert machine.install("--force").code == 0
    assert config.read_text() == "dry_run = false\n"
    machine.uninstall()
    assert config.read_text() == "dry_run = false\n"


def test_a_new_release_updates_what_nobody_changed(machine):
    machine.install()
    manifest = json.loads((machine.home / "install.json").read_text())
    # As an older release left it: another text, and a file that is wanted no more.
    old = machine.home / "health.sh"
    old.write_text("#!/bin/sh\n# of an older release\n")
    gone = machine.home / "old-hook.sh"
    gone.write_text("#!/bin/sh\n# no longer used\n")
    for path in (old, gone):
        sha = subprocess.run(["sha256sum", path], capture_output=True, text=True).stdout.split()[0]
        name = f"/etc/slurm/flightcheck/{path.name}"
        manifest["entries"] = [e for e in manifest["entries"] if e["path"] != name]
        manifest["entries"].append({"path": name, "kind": "file", "sha256": [sha]})
    (machine.home / "install.json").write_text(json.dumps(manifest))
    answer = machine.install()
    assert answer.code == 0
    assert "flightcheck-health" in old.read_text()
    assert not gone.exists()


def test_a_mode_that_was_taken_away_comes_back(machine):
    machine.install()
    (machine.home / "epilog.sh").chmod(0o644)
    assert "mode 0644, expected 0755" in machine.install().out
    assert (machine.home / "epilog.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("during", ["install", "uninstall"])
def test_killed_at_any_moment_the_next_run_ends_as_if_nothing_had_happened(
    machine, during, monkeypatch
):
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # a killed process loses nothing
    before = machine.tree()
    machine.install()
    whole = machine.tree()
    for moment in range(40):
        machine.again()
        if during == "uninstall":
            machine.install()
        if killed_at(moment, getattr(machine, during)):
            break
        if during == "install":
            assert machine.install().code == 0
            assert without_list(machine.tree()) == without_list(whole), f"killed at {moment}"
        assert machine.uninstall().code == 0
        assert without_empty(machine.tree()) == without_empty(before), f"killed at step {moment}"
    else:
        pytest.fail("it never came to its end")
    assert moment > 10


def without_list(tree: dict[str, tuple]) -> dict[str, tuple]:
    return {name: what for name, what in tree.items() if not name.endswith("install.json")}


def without_empty(tree: dict[str, tuple]) -> dict[str, tuple]:
    """Killed between making a folder and writing that down, an empty folder may stay."""
    return {name: what for name, what in tree.items() if what != ("folder",)}


def killed_at(moment: int, what) -> bool:
    """Run `what` in a child that dies at its n-th change of the disk; whether it got through."""
    pid = os.fork()
    if pid == 0:
        left = moment
        real = {name: getattr(os, name) for name in ("replace", "mkdir", "unlink", "rmdir")}

        def dying(name):
            def call(*args, **kwargs):
                nonlocal left
                left -= 1
                if left < 0:
                    os._exit(9)
                return real[name](*args, **kwargs)

            return call

        for name in real:
            setattr(os, name, dying(name))
        try:
            os._exit(what().code)
        finally:
            os._exit(3)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9)
    return code == 0


def test_a_draft_that_an_interrupted_install_left_is_cleaned_up(machine):
    machine.home.mkdir()
    (machine.home / ".prolog.sh.flightcheck-draft").write_text("half a fi")
    assert machine.install().code == 0
    assert not list(machine.root.rglob(".*draft"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")
def test_a_read_only_target_is_said_and_nothing_is_left_half_done(machine, tmp_path):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    script = (
        'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" install --root "$1"'
    )
    program = Path(sys.executable).with_name("flightcheck")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", machine.root, program],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Read-only file system" in done.stderr
    assert "Traceback" not in done.stderr
    assert not machine.home.exists()


def test_a_folder_that_others_can_change_is_refused_before_anything_is_done(machine):
    machine.slurm.chmod(0o777)
    answer = machine.install()
    assert answer.code == 2
    assert "mode 0777" in answer.err
    assert not machine.home.exists()
    assert not (machine.root / "etc/systemd").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_a_folder_of_a_users_is_refused(machine):
    os.chown(machine.slurm, 65534, 65534)
    assert "belongs to uid 65534" in machine.install().err


def test_no_link_leads_out_of_the_root(machine, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (machine.root / "etc/systemd").symlink_to(outside)
    answer = machine.install()
    assert answer.code == 2
    assert "outside of" in answer.err
    assert not list(outside.iterdir())


def test_a_link_in_place_of_a_file_is_not_followed(machine, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    machine.home.mkdir()
    (machine.home / "prolog.sh").symlink_to(victim)
    assert machine.install().code == 1
    assert victim.read_text() == "precious"
    assert machine.install("--force").code == 0
    assert victim.read_text() == "precious"
    assert not (machine.home / "prolog.sh").is_symlink()


def test_a_folder_in_place_of_a_file_is_left_alone(machine):
    (machine.home / "prolog.sh").mkdir(parents=True)
    answer = machine.install("--force")
    assert answer.code == 1
    assert "neither a file nor a link" in answer.out


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"form": 1, "entries": [{"path": "../x", "kind": "file", "sha256": []}]}',
     '{"folders": ["/etc/../root"]}', '{"entries": 3}'],
)  # fmt: skip
def test_a_damaged_manifest_is_refused(machine, text):
    machine.home.mkdir()
    (machine.home / "install.json").write_text(text)
    for answer in (machine.install(), machine.uninstall()):
        assert answer.code == 2
        assert "install.json" in answer.err


def test_a_manifest_that_others_can_write_removes_nothing(machine):
    machine.install()
    (machine.home / "install.json").chmod(0o666)
    answer = machine.uninstall()
    assert answer.code == 2
    assert "mode 0666" in answer.err
    assert (machine.home / "prolog.sh").exists()


def test_two_installs_at_once_do_not_meet(machine):
    machine.install()
    disk = Disk(str(machine.root))
    with disk.alone("/etc/slurm/flightcheck"), pytest.raises(InstallError, match="another"):  # noqa: SIM117
        with disk.alone("/etc/slurm/flightcheck"):
            pass


@pytest.mark.parametrize(
    "option", [["--prefix", "etc"], ["--prefix", "/a/../b"], ["--prefix", "/a b"]]
)
def test_a_prefix_that_is_no_plain_path_is_refused(machine, option):
    with pytest.raises(click.UsageError):
        machine.install(*option)


def test_a_home_in_another_place(machine):
    assert machine.install("--prefix", "/opt/slurm/etc/").code == 0
    assert (machine.root / "opt/slurm/etc/flightcheck/prolog.sh").exists()
    assert machine.uninstall("--prefix", "/opt/slurm/etc").code == 0
    assert not (machine.root / "opt").exists()


@pytest.mark.parametrize("unit", ["collect", "requalify"])
def test_systemd_accepts_the_units(machine, unit):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    machine.install()
    folder = machine.root / "etc/systemd/system"
    done = subprocess.run(
        ["systemd-analyze", "verify", folder / f"flightcheck-{unit}.service",
         folder / f"flightcheck-{unit}.timer"], capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    told = [line for line in done.stderr.splitlines() if f"flightcheck-{unit}" in line]
    assert not told, told
