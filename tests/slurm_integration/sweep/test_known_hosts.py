"""known_hosts as OpenSSH reads it; hashed lines are made by ssh-keygen itself where it is there."""

import shutil
import subprocess

import pytest

from slurm_integration.sweep.transports.ssh.known_hosts import KnownHosts, Match, read_files

KEY = ("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIA8Yv2Oa0nTq9kJmJm3uQ4gMZb7cZ4Y3m1yqR1dZ0d1k")
OTHER = ("ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIOtherOtherOtherOtherOtherOtherOtherOtherOt")


def line(names: str, key=KEY, marker: str = "") -> str:
    return f"{marker} {names} {key[0]} {key[1]} comment\n".strip() + "\n"


CASES = [
    ("node01", "node01", 22, Match.KNOWN),
    ("node01,10.0.0.1", "10.0.0.1", 22, Match.KNOWN),
    ("NODE01", "node01", 22, Match.KNOWN),
    ("node02", "node01", 22, Match.UNKNOWN),
    ("[node01]:2222", "node01", 2222, Match.KNOWN),
    ("[node01]:2222", "node01", 22, Match.UNKNOWN),
    ("node01", "node01", 2222, Match.KNOWN),
    ("node*", "node01", 22, Match.KNOWN),
    ("node0?,!node01", "node01", 22, Match.UNKNOWN),
    ("node0?,!node01", "node02", 22, Match.KNOWN),
]


@pytest.mark.parametrize(("names", "host", "port", "match"), CASES)
def test_names_are_matched_as_openssh_does(names, host, port, match):
    assert KnownHosts([line(names)]).judge(KEY, host, port) is match


def test_another_key_is_not_an_unknown_host():
    assert KnownHosts([line("node01", OTHER)]).judge(KEY, "node01") is Match.OTHER


def test_one_of_several_keys_is_enough():
    known = KnownHosts([line("node01", OTHER) + line("node01")])
    assert known.judge(KEY, "node01") is Match.KNOWN


def test_another_key_on_another_port_is_no_change():
    assert KnownHosts([line("node01", OTHER)]).judge(KEY, "node01", 2222) is Match.UNKNOWN


def test_a_revoked_key_is_refused_though_it_is_known():
    known = KnownHosts([line("node01") + line("*", marker="@revoked")])
    assert known.judge(KEY, "node01") is Match.REVOKED


def test_an_authority_vouches_for_nobody_here():
    known = KnownHosts([line("*", marker="@cert-authority")])
    assert known.judge(KEY, "node01") is Match.UNKNOWN
    assert known.authorities == 1


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_names_hashed_by_ssh_keygen_are_found(tmp_path):
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True
    )
    kind, text = (tmp_path / "key.pub").read_text().split()[:2]
    path = tmp_path / "known"
    path.write_text(f"node01,10.0.0.1 {kind} {text}\n[node02]:2222 {kind} {text}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
    assert "node01" not in path.read_text()
    known = read_files([str(path)])
    assert known.judge((kind, text), "node01") is Match.KNOWN
    assert known.judge((kind, text), "node02", 2222) is Match.KNOWN
    assert known.judge(KEY, "node01") is Match.OTHER
    assert known.judge((kind, text), "node03") is Match.UNKNOWN


@pytest.mark.parametrize("text", ["", "\n\n#x\n", "node01\n", "|1|bad|hash ssh-rsa AAAA\n", "\x00"])
def test_odd_lines_know_nobody(text):
    assert KnownHosts([text]).judge(KEY, "node01") is Match.UNKNOWN


@pytest.mark.parametrize("hashed", [False, True])
def test_a_learnt_key_is_known_now_and_next_time(tmp_path, hashed):
    path = tmp_path / "new/known"
    known = read_files([str(path)])
    assert known.learn(KEY, "Node01", 2222, str(path), hashed=hashed) == ""
    path.write_bytes(path.read_bytes().rstrip(b"\n"))  # somebody's editor
    assert known.learn(OTHER, "node02", 22, str(path), hashed=hashed) == ""
    for now in (known, read_files([str(path)])):
        assert now.judge(KEY, "node01", 2222) is Match.KNOWN
        assert now.judge(OTHER, "node02") is Match.KNOWN
    assert ("node01" in path.read_text()) is not hashed
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_that_can_not_be_kept_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    note = KnownHosts().learn(KEY, "node01", 22, str(tmp_path / "file/known"), hashed=False)
    assert "node01 is not kept" in note
