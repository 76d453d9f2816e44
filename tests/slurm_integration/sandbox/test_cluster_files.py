"""What a sandbox cluster is made of, without starting one."""

import os
import stat
import subprocess

import pytest

from slurm_integration.sandbox.cluster import ClusterSpec, SandboxError, client_environment, status
from slurm_integration.sandbox.cluster.render import render, write


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "relative"},
        {"state": "/tmp/with space"},
        {"state": "/tmp/" + "long" * 20},
        {"state": "/tmp/x\nProlog=/evil"},
        {"nodes": 0},
        {"nodes": 65},
        {"gpus": 17},
        {"cpus": 0},
        {"cred_expire_s": 4},
    ],
)
def test_impossible_clusters_are_refused_with_what_was_expected(changes):
    with pytest.raises(SandboxError, match="expected"):
        ClusterSpec(**{"state": "/tmp/fc", **changes})


def settings(text: str) -> dict[str, str]:
    lines = (line.partition("=")[::2] for line in text.splitlines() if line[:1] not in ("#", ""))
    return dict(lines)


def test_nothing_outside_of_the_state_folder_is_named():
    files = render(ClusterSpec("/tmp/fc"), (20_000, 20_001, 20_002, 20_003, 20_004))
    conf = settings(files["etc/slurm.conf"])
    for name, value in conf.items():
        if "/" in value and name.endswith(("Dir", "File", "Config", "Location", "Prolog")):
            assert value.startswith("/tmp/fc/"), (name, value)
    assert conf["AuthInfo"] == "socket=/tmp/fc/munge/socket,cred_expire=5"
    assert "/etc/slurm" not in "".join(files.values()).replace("/tmp/fc/etc/slurm", "")


def test_failed_prologs_do_not_hold_jobs():
    conf = settings(render(ClusterSpec("/tmp/fc"), tuple(range(5)))["etc/slurm.conf"])
    assert "nohold_on_prolog_fail" in conf["SchedulerParameters"]
    assert conf["PrologFlags"] == "Alloc,Contain,DeferBatch"


@pytest.mark.parametrize(
    ("nodes", "gpus", "folded", "ports", "devices"),
    [
        (1, 8, "node01", "7", "nvidia[0-7]"),
        (4, 1, "node[01-04]", "[7-10]", "nvidia0"),
        (12, 0, "node[01-12]", "[7-18]", None),
    ],
)
def test_nodes_ports_and_devices(nodes, gpus, folded, ports, devices):
    files = render(ClusterSpec("/tmp/fc", nodes, gpus), tuple(range(6, 7 + nodes)))
    line = next(x for x in files["etc/slurm.conf"].splitlines() if x.startswith("NodeName="))
    assert line.startswith(f"NodeName={folded} ")
    assert f" Port={ports} " in line
    assert ("Gres=gpu:h100:" in line) is (gpus > 0)
    if devices:
        assert files["etc/gres.conf"].strip().endswith(f"File=/tmp/fc/dev/{devices}")
    else:
        assert files["etc/gres.conf"].strip() == ""


def test_hook_gives_each_node_its_own_root_and_quotes_its_command(tmp_path):
    spec = ClusterSpec(
        "/tmp/fc",
        prolog=("/usr/bin/env", "A=it's $HOME"),
        hook_environment={"DIR": "/x/%n/a b/%n", "EMPTY": "", "BAD": "`id` $HOME"},
    )
    script = tmp_path / "prolog"
    script.write_text(render(spec, tuple(range(5)))["bin/prolog"])
    done = subprocess.run(
        ["sh", str(script)],
        env={"SLURMD_NODENAME": "node03"},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert seen["FLIGHTCHECK_ROOT"] == "/tmp/fc/nodes/node03/root"
    assert seen["FLIGHTCHECK_CONFIG"] == "/tmp/fc/flightcheck.toml"
    assert (seen["DIR"], seen["EMPTY"]) == ("/x/node03/a b/node03", "")
    assert seen["BAD"] == "`id` $HOME"
    assert seen["A"] == "it's $HOME"


def test_no_epilog_unless_asked_for():
    files = render(ClusterSpec("/tmp/fc"), tuple(range(5)))
    assert "bin/epilog" not in files
    assert "Epilog=" not in files["etc/slurm.conf"]
    files = render(ClusterSpec("/tmp/fc", epilog=("/bin/true",)), tuple(range(5)))
    assert "Epilog=/tmp/fc/bin/epilog" in files["etc/slurm.conf"]
    assert files["bin/epilog"].rstrip().endswith("exec /bin/true")


def test_written_key_is_private_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("slurm_integration.sandbox.cluster.spec._MAX_PATH", 500)
    spec = ClusterSpec(str(tmp_path))
    write(spec, tuple(range(5)))
    key = tmp_path / "munge/key"
    first = key.read_bytes()
    assert len(first) == 128
    assert stat.S_IMODE(key.stat().st_mode) == 0o400
    write(spec, tuple(range(5)))
    assert key.read_bytes() == first
    assert os.readlink(tmp_path / "dev/nvidia7") == "/dev/null"


def test_status_of_a_folder_that_holds_no_sandbox(tmp_path):
    found = status(str(tmp_path))
    assert (found.spec, found.processes, found.nodes) == (None, 0, ())
    assert not found.running
    assert not found.ready


def test_clients_see_no_other_cluster(monkeypatch):
    monkeypatch.setenv("SLURM_CLUSTERS", "production")
    monkeypatch.setenv("SBATCH_PARTITION", "x")
    env = client_environment("/tmp/fc")
    assert env["SLURM_CONF"] == "/tmp/fc/etc/slurm.conf"
    assert not {"SLURM_CLUSTERS", "SBATCH_PARTITION"} & set(env)
