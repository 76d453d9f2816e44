"""`flightcheck drains` and `flightcheck resume` against the stand-in for scontrol."""

import json

import pytest
from click.testing import CliRunner

from slurm_integration.commands.drains import command as drains
from slurm_integration.commands.resume import command as resume
from slurm_integration.history.store import Store

pytestmark = pytest.mark.usefixtures("history")
OURS = "flightcheck: no-go gpu-count: 7 of 8 GPUs visible [job 4711]"


@pytest.fixture
def history(tmp_path, monkeypatch):
    """The history of this test, which a resume is told to."""
    config = tmp_path / "flightcheck.toml"
    config.write_text(f'history_db = "sqlite:///{tmp_path}/history.db"\n')
    monkeypatch.setenv("FLIGHTCHECK_CONFIG", str(config))
    return tmp_path / "history.db"


def call(command, fake, *arguments):
    result = CliRunner().invoke(command, [*arguments, "--scontrol", fake.program])
    return result.exit_code, result.output


def test_drains_are_folded_and_foreign_ones_only_counted(fake):
    for node in ("node01", "node02", "node03"):
        fake.drain(node, OURS)
    fake.drain("node05", "flightcheck: no-go ecc: 3 uncorrected errors", age_s=7200)
    fake.drain("node07", "bad DIMM", user="al")
    code, text = call(drains, fake)
    assert code == 0
    assert "node[01-03]" in text
    assert OURS in text
    assert "bad DIMM" not in text
    assert text.index("node05") < text.index("node[01-03]")
    assert "4 of 8 nodes drained by flightcheck; 1 held by others" in text
    assert len(fake.calls) == 1


def test_drains_as_json(fake):
    fake.drain("node02", OURS)
    fake.drain("node07", "bad DIMM")
    code, text = call(drains, fake, "--json")
    found = json.loads(text)
    assert code == 0
    assert (found["foreign"], found["nodes"]) == (1, 8)
    (drain,) = found["drains"]
    assert isinstance(drain.pop("since"), int)
    assert drain == {
        "node": "node02",
        "state": "drained",
        "check": "gpu-count",
        "job_id": 4711,
        "replace": False,
        "reason": OURS,
    }


def test_no_drains(fake):
    code, text = call(drains, fake)
    assert (code, text.strip()) == (
        0,
        "0 of 8 nodes drained by flightcheck; 0 held by others, which flightcheck leaves alone.",
    )


@pytest.mark.parametrize("command", [drains, resume])
def test_slurm_that_refuses_is_exit_code_3(fake, command):
    fake.mood(refuse="show")
    arguments = ["node01"] if command is resume else []
    code, text = call(command, fake, *arguments)
    assert code == 3
    assert "can't read the nodes: scontrol failed" in text


def test_resume_gives_back_ours_in_one_read_and_one_update(fake):
    for node in ("node01", "node02", "node04"):
        fake.drain(node, OURS)
    code, text = call(resume, fake, "node[01-02,04]")
    assert (code, text.strip()) == (0, "node[01-02,04]: resumed")
    assert fake.drained == {}
    assert len(fake.calls) == 2


def test_resume_refuses_foreign_drains_and_still_resumes_ours(fake):
    fake.drain("node01", OURS)
    fake.drain("node02", "bad DIMM", user="al")
    code, text = call(resume, fake, "node[01-03]")
    assert code == 2
    assert "node02 refused: held by al, not by flightcheck: bad DIMM" in text
    assert "scontrol update NodeName=node02 State=RESUME" in text
    assert "node03: in service already" in text
    assert "node01: resumed" in text
    assert fake.drained == {"node02": "bad DIMM"}


def test_resume_of_hardware_to_be_replaced_needs_a_word(fake):
    fake.drain("node01", "flightcheck: no-go row-remap: failed [job 1, replace]")
    code, text = call(resume, fake, "node01")
    assert code == 2
    assert "add --replaced" in text
    assert "node01" in fake.drained
    assert call(resume, fake, "node01", "--replaced")[0] == 0
    assert fake.drained == {}


def test_resume_dry_run_changes_nothing(fake):
    fake.drain("node01", OURS)
    code, text = call(resume, fake, "node01", "--dry-run")
    assert (code, text.strip()) == (0, "node01: would be resumed (dry run)")
    assert fake.drained == {"node01": OURS}


def test_resume_of_an_unknown_node(fake):
    code, text = call(resume, fake, "nodeX")
    assert code == 2
    assert "nodeX refused: Slurm knows no node of this name" in text


@pytest.mark.parametrize("nodelist", ["node[01-", "", "n[1-999999999]", "node[03-01]"])
def test_resume_of_a_nodelist_that_is_none(fake, nodelist):
    code, text = call(resume, fake, nodelist)
    assert code == 2
    assert "NODELIST: expected" in text
    assert fake.calls == []


def test_resume_that_slurm_refuses(fake):
    fake.drain("node01", OURS)
    fake.mood(refuse="update")
    code, text = call(resume, fake, "node01")
    assert code == 3
    assert "node01 not resumed: scontrol failed" in text


def test_a_resume_is_in_the_history_of_its_node(fake, history, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "al")
    for node in ("node01", "node02"):
        fake.drain(node, OURS)
    code, _ = call(resume, fake, "node01", "--replaced")
    assert code == 0
    with Store(f"sqlite:///{history}") as store:
        told = {node: [e for e in store.events(node) if e.kind == "resume"] for node in
                ("node01", "node02")}  # fmt: skip
    (event,) = told["node01"]
    assert event.message == "resumed by al, hardware replaced"
    assert told["node02"] == []


def test_a_history_that_is_not_there_stops_no_resume(fake, tmp_path):
    (tmp_path / "flightcheck.toml").write_text(
        'history_db = "postgresql://nobody@127.0.0.1:1/none"\n'
    )
    fake.drain("node01", OURS)
    code, text = call(resume, fake, "node01")
    assert code == 0
    assert "node01: resumed" in text and "not kept in the history" in text
