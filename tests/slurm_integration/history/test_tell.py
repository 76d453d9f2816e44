"""What an admin host did is kept, and never in the way."""

from healthcheck.config import Config
from slurm_integration.history.store import Store
from slurm_integration.history.tell import tell_history


def test_a_resume_is_kept_for_each_node(tmp_path):
    config = Config(state_dir=str(tmp_path / "state"))
    note = tell_history(config, "resume", ["a", "b"], "three clean passes", stage="requalify")
    assert note is None
    with Store(f"sqlite:///{tmp_path}/state/history.db") as store:
        (one,) = store.events("b")
    assert (one.kind, one.stage, one.message) == ("resume", "requalify", "three clean passes")


def test_a_drain_by_a_sweep_counts_as_out_of_service(tmp_path):
    config = Config(state_dir=str(tmp_path))
    tell_history(config, "drain", ["a"], "flightcheck: no-go", outcome="drained", stage="sweep")
    with Store(f"sqlite:///{tmp_path}/history.db") as store:
        assert [(t.node, t.signal) for t in store.tallies(0)] == [("a", "drain")]


def test_a_history_that_cannot_be_written_is_a_note(tmp_path):
    (tmp_path / "file").write_text("")
    config = Config(state_dir=str(tmp_path / "file"))
    note = tell_history(config, "resume", ["a"], "x", stage="resume")
    assert note.startswith("not kept in the history:")


def test_nothing_done_is_nothing_told(tmp_path):
    assert tell_history(Config(state_dir=str(tmp_path)), "resume", [], "x", stage="resume") is None
    assert list(tmp_path.iterdir()) == []
