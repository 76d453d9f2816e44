"""Whole rounds against a stand-in for scontrol: what is sent, and what is never sent."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from making import NOW, looked, sick

from slurm_integration.commands.requalify import command
from slurm_integration.requalify.door import RequalifyScontrol
from slurm_integration.requalify.round import Requalifier, SlurmError
from slurm_integration.requalify.rules import Rules
from slurm_integration.requalify.store import FILE, MAX_BYTES, Store, StoreError
from slurm_integration.requalify.words import as_text

OURS = "flightcheck: no-go gpu-count: 7 of 8 GPUs visible"
RULES = Rules(passes=2, spread_s=600)


class Bench:
    """A requalifier with a clock and looks that a test sets."""

    def __init__(self, fake, folder: Path, rules: Rules = RULES, **more) -> None:
        self.fake, self.now, self.answers, self.asked = fake, NOW, {}, []
        self.store = Store(str(folder / "memory"))
        Path(folder / "memory").mkdir(exist_ok=True)
        self.requalifier = Requalifier(
            RequalifyScontrol(fake.program, timeout_s=20), self.look, self.store, rules,
            sweep_checks={"gpu-count"}, clock=lambda: self.now, **more,
        )  # fmt: skip

    def look(self, nodes):
        self.asked.append([node.name for node in nodes])
        return {n.name: self.answers.get(n.name, looked(node=n.name)) for n in nodes}

    def round(self, after: float = 0.0):
        self.now += after
        return self.requalifier.round()

    def updates(self) -> list[str]:
        return [call for call in self.fake.calls if call.startswith(("update", "reboot"))]


@pytest.fixture
def bench(fake, tmp_path) -> Bench:
    return Bench(fake, tmp_path)


def done(round_) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.what, one.nodes) for one in round_.done]


def test_nodes_come_back_after_their_passes_in_one_update(bench):
    for name in ("node01", "node02", "node03"):
        bench.fake.drain(name, OURS)
    bench.answers["node03"] = sick("node03")
    assert bench.round().done == ()
    assert bench.round(300).done == ()
    assert done(bench.round(300)) == [("resumed", ("node01",)), ("resumed", ("node02",))]
    assert bench.updates() == ["update NodeName=node[01-02] State=RESUME"]
    assert set(bench.fake.drained) == {"node03"}
    # the healthy were not asked again before a pass would count; the sick one was each time
    assert bench.asked == [
        ["node01", "node02", "node03"],
        ["node03"],
        ["node01", "node02", "node03"],
    ]


def test_foreign_drains_are_neither_asked_nor_touched(bench):
    bench.fake.drain("node01", "rack work, al")
    bench.fake.drain("node02", OURS)
    for _ in range(3):
        end = bench.round(600)
    assert set(bench.fake.drained) == {"node01"}
    assert end.foreign == ("node01",)
    assert all("node01" not in names for names in bench.asked)


def test_a_node_that_others_took_over_during_the_look_stays(bench):
    bench.fake.drain("node01", OURS)
    bench.round()
    healthy = bench.look

    def look(nodes):
        bench.fake.drain("node01", "mine, al", user="al")
        return healthy(nodes)

    bench.requalifier._look = look
    assert done(bench.round(600)) == [("changed", ("node01",))]
    assert bench.updates() == []


def test_resumes_are_bounded_in_a_window_and_the_longest_drained_come_first(fake, tmp_path):
    bench = Bench(fake, tmp_path, Rules(passes=1, spread_s=0, max_nodes=2))
    for age, name in enumerate(("node01", "node02", "node03", "node04"), 1):
        fake.drain(name, OURS, age_s=age * 100)
    first = bench.round()
    assert done(first)[0] == ("over-budget", ("node02", "node01"))
    assert set(fake.drained) == {"node01", "node02"}
    assert done(bench.round(60)) == [("over-budget", ("node02", "node01"))]
    bench.round(3600)
    assert fake.drained == {}


def test_a_dry_run_remembers_and_sends_nothing(fake, tmp_path):
    bench = Bench(fake, tmp_path, Rules(passes=1, spread_s=0, reboot=True), dry_run=True)
    fake.drain("node01", OURS)
    fake.drain("node02", OURS)
    bench.answers["node02"] = sick("node02")
    assert done(bench.round()) == [("would-resume", ("node01",)), ("would-reboot", ("node02",))]
    assert bench.updates() == []
    assert bench.store.load()[0].of("node01").passes == (NOW,)


def test_only_the_nodes_asked_for_are_looked_at(fake, tmp_path):
    bench = Bench(fake, tmp_path, Rules(passes=1, spread_s=0), only={"node02", "node05", "nix"})
    fake.drain("node01", OURS)
    fake.drain("node02", OURS)
    end = bench.round()
    assert set(fake.drained) == {"node01"}
    assert bench.asked == [["node02"]]
    assert end.notes[0] == "nix: Slurm knows no node of this name"
    assert "in service" in end.notes[1]


def test_a_crash_between_intent_and_answer_forgets_neither_resume_nor_budget(bench, monkeypatch):
    bench.fake.drain("node01", OURS)
    bench.round()
    real = bench.requalifier._slurm.update_nodes

    def crash(nodes, fields):
        real(nodes, fields)
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.requalifier._slurm, "update_nodes", crash)
    with pytest.raises(KeyboardInterrupt):
        bench.round(600)
    end = bench.round(10)
    assert end.book.of("node01").history[0].by == "requalify"
    assert [name for _, name in end.book.resumes] == ["node01"]


@pytest.mark.parametrize("mood", ["refuse", "hang", "garbage"])
def test_a_slurm_that_does_not_answer_ends_the_round_before_anything_is_asked(bench, mood):
    bench.fake.drain("node01", OURS)
    bench.fake.mood(**{mood: "show"})
    bench.requalifier._slurm._timeout_s = 1.0
    if mood == "garbage":
        assert bench.round().standings == ()
    else:
        with pytest.raises(SlurmError):
            bench.round()
    assert bench.asked == []
    assert bench.updates() == []


def test_a_refused_resume_is_told_and_tried_again(fake, tmp_path):
    bench = Bench(fake, tmp_path, Rules(passes=1, spread_s=0))
    fake.drain("node01", OURS)
    fake.mood(refuse="update")
    failed = bench.round()
    assert done(failed) == [("failed", ("node01",))]
    assert "permission denied" in failed.done[0].why
    fake.mood()
    assert done(bench.round(10)) == [("resumed", ("node01",))]


def test_without_a_place_to_remember_nothing_is_resumed(fake, tmp_path):
    bench = Bench(fake, tmp_path, Rules(passes=1, spread_s=0))
    fake.drain("node01", OURS)
    bench.store.path = str(tmp_path / "no/such/folder/requalify.json")
    with pytest.raises(StoreError):
        bench.round()
    assert set(fake.drained) == {"node01"}


def test_a_node_that_flaps_is_held_off_longer_each_time_and_then_stays(fake, tmp_path):
    rules = Rules(passes=1, spread_s=0, hold_s=1000, max_strikes=3, flap_window_s=5000)
    bench = Bench(fake, tmp_path, rules)

    def drain_now() -> None:
        fake.set("node01", state="IDLE+DRAIN", reason=OURS, at=int(bench.now), user="root")

    drain_now()
    assert done(bench.round()) == [("resumed", ("node01",))]
    for hold in (1000, 2000):
        bench.now += 60
        drain_now()
        held = bench.round()
        assert held.standings[0].stand == "held-off"
        assert held.standings[0].until == bench.now + hold
        assert bench.round(hold - 1).done == ()
        assert done(bench.round(1)) == [("resumed", ("node01",))]
    bench.now += 60
    drain_now()
    for _ in range(5):
        end = bench.round(100_000)
    assert end.standings[0].stand == "flapping"
    assert "node01" in fake.drained
    assert "flightcheck resume node01" in as_text(end, rules)


def test_an_unreadable_state_is_set_aside_and_everybody_proves_anew(bench):
    bench.fake.drain("node01", OURS)
    for content in (b"{", b"\x00" * 10, b'{"form": 9}', b'{"records": {"a": {"passes": "x"}}}'):
        Path(bench.store.path).write_bytes(content)
        end = bench.round()
        assert "set aside" in end.notes[0]
        assert end.done == ()
        assert Path(f"{bench.store.path}.unreadable").read_bytes() == content


def test_a_state_that_is_a_link_or_too_big_is_not_followed(tmp_path):
    (tmp_path / "target").write_text("{}")
    (tmp_path / FILE).symlink_to(tmp_path / "target")
    with pytest.raises(StoreError):
        Store(str(tmp_path)).load()
    (tmp_path / FILE).unlink()
    with open(tmp_path / FILE, "wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert "set aside" in Store(str(tmp_path)).load()[1]


def test_the_state_survives_a_failed_write_whole(bench, monkeypatch):
    bench.fake.drain("node01", OURS)
    bench.round()
    before = Path(bench.store.path).read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(StoreError, match="full"):
        bench.round(600)
    assert Path(bench.store.path).read_bytes() == before
    assert set(bench.fake.drained) == {"node01"}


def test_two_requalifies_do_not_work_at_once(tmp_path):
    other = Store(str(tmp_path)).locked()
    with (
        Store(str(tmp_path)).locked(),
        pytest.raises(StoreError, match="another requalify"),
        other,
    ):
        pass
    with Store(str(tmp_path)).locked():
        pass


def test_a_host_cannot_put_words_into_the_operators_commands(bench):
    bench.fake.drain("node01", OURS)
    hostile = sick("node01")
    assert hostile.report is not None
    message = "bad {node} \x1b[31m; rm -rf /"
    hostile.report["outcomes"][0]["findings"][0]["message"] = message
    bench.answers["node01"] = hostile
    text = as_text(bench.round(), RULES)
    assert "\x1b" not in text
    assert text.count("{node}") == 0
    assert text.endswith("next: scontrol reboot node01")


def command_line(fake, tmp_path: Path, *more: str, config: str = "dry_run = false\n"):
    path = tmp_path / "flightcheck.toml"
    path.write_text(f'{config}[drain]\nscontrol = "{fake.program}"\n')
    argv = ["--config", str(path), "--state-dir", str(tmp_path / "memory"), "--via", "local", *more]
    return CliRunner().invoke(command, argv, standalone_mode=False)


def test_the_command_brings_back_a_healthy_node(fake, tmp_path, h100, monkeypatch):
    fake.drain("node01", OURS)
    monkeypatch.setenv("FLIGHTCHECK_ROOT", str(h100.root))
    ended = command_line(fake, tmp_path, "--passes", "1", "--spread", "0")
    assert ended.return_value == 0, ended.output
    assert "node01: resumed: 1 clean pass" in ended.output
    assert fake.drained == {}


def test_the_command_leaves_a_sick_node_and_says_what_to_run(fake, tmp_path, h100, monkeypatch):
    h100.break_("xid-79")
    fake.drain("node01", OURS)
    monkeypatch.setenv("FLIGHTCHECK_ROOT", str(h100.root))
    ended = command_line(fake, tmp_path, "--passes", "1", "--spread", "0", "--json")
    assert set(fake.drained) == {"node01"}
    said = msgspec.json.decode(ended.output)
    assert said["standings"][0]["stand"] == "due"
    assert "GPU" in said["standings"][0]["why"]


def test_the_command_obeys_a_dry_run_of_the_configuration(fake, tmp_path, h100, monkeypatch):
    fake.drain("node01", OURS)
    monkeypatch.setenv("FLIGHTCHECK_ROOT", str(h100.root))
    for config in ("", "no_such_key = 1\n"):
        ended = command_line(fake, tmp_path, "--passes", "1", "--spread", "0", config=config)
        assert set(fake.drained) == {"node01"}, ended.output


def test_the_command_says_when_slurm_is_away(fake, tmp_path):
    fake.mood(refuse="show")
    ended = command_line(fake, tmp_path)
    assert ended.return_value == 3
    assert "nothing was resumed" in ended.output


@pytest.mark.parametrize("nodes", ["node[01", "node[1-9999999]", ";id"])
def test_a_malformed_node_list_is_a_usage_error(fake, tmp_path, nodes):
    ended = command_line(fake, tmp_path, "-w", nodes)
    assert "-w" in str(ended.exception)
    assert fake.calls == []


def test_watching_goes_on_through_a_slurm_that_is_away_and_ends_on_a_signal(fake, tmp_path, h100):
    config = tmp_path / "flightcheck.toml"
    config.write_text(f'dry_run = false\n[drain]\nscontrol = "{fake.program}"\n')
    fake.drain("node01", OURS)
    fake.mood(refuse="show")
    code = "from slurm_integration.commands.requalify import command; command()"
    argv = [
        *("--config", str(config), "--state-dir", str(tmp_path / "memory"), "--via", "local"),
        *("--watch", "--interval", "1", "--passes", "2", "--spread", "1"),
    ]
    watching = subprocess.Popen(
        [sys.executable, "-c", code, *argv], env=h100.environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while not fake.calls and time.monotonic() < until:
            time.sleep(0.1)
        fake.mood()
        while fake.drained and time.monotonic() < until:
            time.sleep(0.1)
        watching.send_signal(signal.SIGTERM)
        said, complained = watching.communicate(timeout=240)
    finally:
        watching.kill()
    assert fake.drained == {}
    assert "node01: 1 of 2 clean passes" in said
    assert "node01: resumed: 2 clean passes" in said
    assert "permission denied" in complained
    assert watching.returncode == 0


def test_ctrl_c_during_a_look_resumes_nothing(fake, tmp_path):
    bench = Bench(fake, tmp_path, Rules(passes=1, spread_s=0))
    fake.drain("node01", OURS)

    def interrupted(_):
        raise KeyboardInterrupt

    bench.requalifier._look = interrupted
    with pytest.raises(KeyboardInterrupt):
        bench.round()
    assert set(fake.drained) == {"node01"}
