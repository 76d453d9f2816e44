"""`flightcheck doctor` where Slurm is broken, missing, or a file."""

import json

import pytest

from healthcheck.host import LocalHost


def test_without_slurm_the_node_is_still_judged(h100):
    h100.configure('[drain]\nscontrol = "/no/such/scontrol"\n')
    done = h100.run("flightcheck", "doctor", "--json", FLIGHTCHECK_CONFIG=str(h100.config))
    found = json.loads(done.stdout)
    assert done.returncode == 2
    rules = {one["rule"]: one["level"] for one in found["complaints"]}
    assert rules["slurm-reachable"] == "wrong"
    assert rules["dry-run"] == "advice"


def test_a_scontrol_that_hangs_or_fails_is_told(h100, tmp_path):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        "#!/bin/sh\necho 'slurm_load_ctl_conf error: Unable to contact' >&2\nexit 1\n"
    )
    scontrol.chmod(0o755)
    h100.configure(f'[drain]\nscontrol = "{scontrol}"\n')
    done = h100.run("flightcheck", "doctor", FLIGHTCHECK_CONFIG=str(h100.config))
    assert done.returncode == 2
    assert "Unable to contact" in done.stdout
    assert "\x1b" not in done.stdout


def test_node_only_asks_nothing_of_slurm(h100):
    h100.configure("dry_run = false\n")
    done = h100.run(
        "flightcheck", "doctor", "--node-only", "--json", FLIGHTCHECK_CONFIG=str(h100.config)
    )
    found = json.loads(done.stdout)
    assert {one["rule"] for one in found["complaints"]} <= {"compiled", "two-installations"}
    assert "not Slurm (--node-only)" in found["looked_at"]


def test_a_file_is_judged_in_place_of_scontrol(h100, tmp_path):
    conf = tmp_path / "slurm.conf"
    conf.write_text("PrologFlags=Alloc\nProlog=/no/prolog\n")
    done = h100.run("flightcheck", "doctor", "--slurm-conf", str(conf))
    assert done.returncode == 2
    assert "PrologFlags=Alloc,Contain,DeferBatch" in done.stdout
    assert str(conf) in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("text", [b"\x00\xff\xfe", b"include nowhere.conf\n", b"=" * 5000])
def test_a_bad_file_is_no_crash(h100, tmp_path, text):
    conf = tmp_path / "slurm.conf"
    conf.write_bytes(text)
    done = h100.run("flightcheck", "doctor", "--slurm-conf", str(conf))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_refused_configuration_is_the_first_thing_to_mend(h100):
    h100.configure("no_such_key = 1\n")
    done = h100.run("flightcheck", "doctor", "--node-only", FLIGHTCHECK_CONFIG=str(h100.config))
    assert done.returncode == 2
    assert "no_such_key" in done.stdout
    h100.configure("dry_run = false\n")
    h100.config.chmod(0o666)
    done = h100.run("flightcheck", "doctor", "--node-only", FLIGHTCHECK_CONFIG=str(h100.config))
    assert "mode 0666" in done.stdout
    assert f"chmod 644 {h100.config}" in done.stdout


def test_options_that_contradict_each_other(h100):
    done = h100.run("flightcheck", "doctor", "--node-only", "--slurm-conf", "/x")
    assert done.returncode == 64


def test_a_slurmctld_that_answers_slowly_is_not_taken_for_a_wrong_clock(monkeypatch):
    """Its clock was read some time during the call, and the call may take long."""
    from slurm_integration.doctor import gather
    from slurm_integration.doctor.slurm_conf import parse_shown

    clock = iter([1000.0, 1014.0])
    monkeypatch.setattr(gather.time, "time", lambda: next(clock))
    for as_of, now in ((1007.0, 1007.0), (900.0, 999.0), (1020.0, 1014.0)):
        clock = iter([1000.0, 1014.0])
        shown = parse_shown("MessageTimeout = 10 sec\n")
        shown = type(shown)(shown.source, shown.values, as_of)
        monkeypatch.setattr(gather, "read_slurm", lambda *_, shown=shown: (shown, ""))
        assert gather.gather(LocalHost(), "/no/config", None, ask=True).now == now
