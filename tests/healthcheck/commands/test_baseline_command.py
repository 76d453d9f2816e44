"""`flightcheck baseline show` and `accept`."""

import os

import pytest
from click.testing import CliRunner

from healthcheck.baseline import FILE, load_baseline, save_baseline
from healthcheck.commands.baseline import accepted_lines, baseline_lines, command
from healthcheck.model import Baseline, Counter, Event, LastJob

BASELINE = Baseline(
    taken_at=1_796_083_200.0,
    profile="h100-sxm",
    counters={
        "0000:10:00.0|pcie_replays": Counter(0, 1.0),
        "0000:10:00.0|ecc_volatile_uncorrected": Counter(3, 1.0),
    },
    events=(
        Event("xid", 1_796_083_100.0, code=79, subject="0000:10:00.0", message="off the bus"),
        Event("xid", 1_796_083_150.0, code=79, subject="0000:10:00.0"),
        Event("link-downed", 1_796_083_160.0, subject="mlx5_0/1", count=4),
    ),
    last_job=LastJob(4711),
)


@pytest.fixture
def state(tmp_path):
    """A configuration whose state folder is the test's own, and that folder."""
    folder = tmp_path / "state"
    (tmp_path / "flightcheck.toml").write_text(f'state_dir = "{folder}"\n')
    return str(folder)


def run(state, *args):
    config = os.path.join(os.path.dirname(state), "flightcheck.toml")
    result = CliRunner().invoke(command, [*args, "--config", config], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.output


def test_a_node_that_remembers_nothing_says_so(state):
    assert run(state, "show")[0] == 0
    assert "no baseline yet" in run(state, "show")[1]
    code, said = run(state, "accept")
    assert code == 0
    assert "nothing to accept" in said
    assert not os.path.exists(state)


def test_show_tells_counters_that_are_not_zero_and_events_that_judge(state):
    save_baseline(state, BASELINE)
    code, said = run(state, "show")
    assert code == 0
    assert "profile   h100-sxm" in said
    assert "counters  2, 1 of them not zero" in said
    assert "ecc_volatile_uncorrected" in said
    assert "pcie_replays" not in said
    assert "events    3, 3 of them not accepted" in said
    assert "xid 79 0000:10:00.0 off the bus" in said
    assert "link-downed mlx5_0/1 (4 times)" in said


def test_accept_says_what_judges_no_more_and_keeps_it_so(state):
    save_baseline(state, BASELINE)
    code, said = run(state, "accept")
    assert code == 0
    assert "events up to now judge this node no more, 3 remembered ones among them" in said
    assert "2 × xid 79 0000:10:00.0" in said
    assert "2 counters (1 not zero) begin anew" in said
    kept, _ = load_baseline(state)
    assert kept.accepted_at > BASELINE.events[-1].at
    assert kept.counters == {}
    assert kept.profile == "h100-sxm"
    assert "0 of them not accepted" in run(state, "show")[1]


def test_accept_can_let_the_node_type_be_chosen_anew(state):
    save_baseline(state, BASELINE)
    code, said = run(state, "accept", "--forget-profile")
    assert code == 0
    assert "this node was h100-sxm" in said
    assert load_baseline(state)[0].profile is None


def test_a_baseline_cut_short_is_set_aside_with_a_word(state):
    save_baseline(state, BASELINE)
    with open(f"{state}/{FILE}", "r+b") as file:
        file.truncate(40)
    code, said = run(state, "accept")
    assert code == 0
    assert "set aside" in said
    assert os.path.exists(f"{state}/{FILE}.set-aside")


def test_without_permission_it_is_refused_politely(state, monkeypatch):
    save_baseline(state, BASELINE)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for verb in ("show", "accept"):
        code, said = run(state, verb)
        assert code == 77
        assert "permission denied; run it as root" in said


def test_text_from_the_kernel_log_cannot_reach_the_terminal_raw():
    nasty = Baseline(events=(Event("xid", 5.0, message="\x1b[2Jgone\nline"),))
    lines = [*baseline_lines(nasty, "F"), *accepted_lines(nasty, 9.0)]
    assert not any(ord(char) < 32 for line in lines for char in line)
