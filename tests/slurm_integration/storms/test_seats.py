"""Seats in a shared folder: exactly as many as are left, whoever comes when."""

import os
import time

import pytest
from fake_scontrol import FakeSlurm, in_parallel

from healthcheck.config import DrainSettings
from slurm_integration.drain import Decision, Drained, drain_node
from slurm_integration.seats import SEAT_LIFE_S, Seat, SeatsError, leave_to_slurm, take_seat

WINDOW = 3600.0


@pytest.fixture
def folder(tmp_path):
    seats = tmp_path / "seats"
    seats.mkdir(mode=0o700)
    return seats


def take(folder, node: str, left: int = 1, drained: tuple[str, ...] = ()) -> Seat:
    return take_seat(str(folder), node, left, drained, WINDOW, time.monotonic() + 5)


def age(folder, ticket: int, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder / f"seat-{ticket:08d}", (then, then))


def test_seats_are_numbered_and_end_with_the_budget(folder):
    assert take(folder, "a", 2) == Seat(1, 0)
    assert take(folder, "b", 2) == Seat(2, 1)
    assert take(folder, "c", 2) == Seat(None, 2)
    assert sorted(os.listdir(folder)) == ["seat-00000001", "seat-00000002"]


def test_a_seat_whose_node_slurm_already_shows_as_drained_is_not_counted_twice(folder):
    take(folder, "a")
    assert take(folder, "b", 1, drained=("a",)) == Seat(2, 0)


def test_a_node_that_comes_again_is_not_in_its_own_way(folder):
    take(folder, "a")
    assert take(folder, "a") == Seat(2, 0)


def test_the_seat_of_a_prolog_that_died_is_free_again_after_its_life(folder):
    take(folder, "a")
    age(folder, 1, SEAT_LIFE_S - 5)
    assert take(folder, "b").ticket is None
    age(folder, 1, SEAT_LIFE_S + 5)
    assert take(folder, "b") == Seat(2, 0)


def test_a_seat_that_was_left_to_slurm_counts_for_the_whole_window(folder):
    take(folder, "a")
    leave_to_slurm(str(folder), 1, time.monotonic() + 5)
    age(folder, 1, WINDOW - 5)
    assert take(folder, "b").ticket is None
    age(folder, 1, WINDOW + 5)
    assert take(folder, "b").ticket == 2


def test_a_seat_that_is_just_being_written_counts(folder):
    (folder / "seat-00000001").touch()
    assert take(folder, "b") == Seat(None, 1)


def test_numbers_never_begin_again_and_old_files_go(folder):
    for number in range(1, 6):
        (folder / f"seat-{number:08d}").write_text(f"n{number}")
        age(folder, number, 200_000)
    assert take(folder, "x").ticket == 6
    assert sorted(os.listdir(folder)) == ["seat-00000005", "seat-00000006"]


def test_forty_nodes_at_once_get_exactly_the_seats_that_are_left(folder):
    def work(number: int) -> int | None:
        return take(folder, f"n{number}", 5).ticket

    tickets = [ticket for ticket in in_parallel(40, work) if ticket is not None]
    assert sorted(tickets) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_may_write_is_refused(folder, mode):
    folder.chmod(mode)
    with pytest.raises(SeatsError, match="chmod 700"):
        take(folder, "a")


def test_a_link_in_place_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(SeatsError):
        take(tmp_path / "link", "a")


def test_a_folder_that_is_not_there_is_an_error_in_words(tmp_path):
    with pytest.raises(SeatsError, match="No such file"):
        take(tmp_path / "none", "a")


def test_a_file_server_that_does_not_answer_holds_nobody(folder, monkeypatch):
    monkeypatch.setattr("os.listdir", lambda _: time.sleep(3600))
    with pytest.raises(SeatsError, match="did not answer in time"):
        take_seat(str(folder), "a", 1, (), WINDOW, time.monotonic() + 0.3)


def drain(fake: FakeSlurm, folder, node: str = "node01", **changes: object) -> Decision:
    base = {"jitter_s": 0.0, "max_nodes": 2, "max_percent": 100.0, "max_held_percent": 100.0}
    base |= {"scontrol": fake.program, "seats_dir": str(folder)}
    settings = DrainSettings(**{**base, **changes})  # type: ignore[arg-type]
    return drain_node("no-go gpu-count: x", settings, node, 7, time.monotonic() + 10, dry_run=False)


def test_a_lone_failing_node_makes_one_read_and_one_update(fake, folder):
    fake.set("node01", comment="rack 7")
    decision = drain(fake, folder)
    assert decision.outcome is Drained.DRAINED
    assert (decision.reads, decision.updates) == (1, 1)
    assert len(fake.calls) == 2
    assert list(fake.drained) == ["node01"]
    assert fake.nodes["node01"]["comment"] == "rack 7"


def test_drains_and_seats_together_make_the_budget(fake, folder):
    fake.drain("node07", "flightcheck: no-go a: b", age_s=60)
    assert drain(fake, folder, "node01").outcome is Drained.DRAINED
    decision = drain(fake, folder, "node02")
    assert decision.outcome is Drained.OVER_BUDGET
    assert (decision.reads, decision.updates) == (1, 0)


def test_a_seat_without_its_drain_yet_is_respected(fake, folder):
    take(folder, "node05", 9)
    take(folder, "node06", 9)
    decision = drain(fake, folder)
    assert decision.outcome is Drained.OVER_BUDGET
    assert "2 seats taken in" in decision.message
    assert fake.drained == {}


def test_a_resumed_node_gives_its_seat_back_after_the_life_of_a_seat(fake, folder):
    assert drain(fake, folder, max_nodes=1).outcome is Drained.DRAINED
    fake.set("node01", state="IDLE", reason="")
    assert drain(fake, folder, "node02", max_nodes=1).outcome is Drained.OVER_BUDGET
    age(folder, 1, SEAT_LIFE_S + 1)
    assert drain(fake, folder, "node02", max_nodes=1).outcome is Drained.DRAINED


def test_a_refused_drain_is_left_to_slurm_and_keeps_its_seat(fake, folder):
    fake.mood(refuse="drain")
    decision = drain(fake, folder, max_nodes=1)
    assert decision.outcome is Drained.LEFT_TO_SLURM
    assert decision.fail_job
    assert "left-to-slurm" in (folder / "seat-00000001").read_text()


@pytest.mark.parametrize("policy", ["run-job", "fail-job"])
def test_without_the_folder_the_budget_is_not_known(fake, tmp_path, policy):
    decision = drain(fake, tmp_path / "none", without_slurm=policy)
    closed = policy == "fail-job"
    assert decision.outcome is (Drained.FAILED_CLOSED if closed else Drained.FAILED_OPEN)
    assert "seats_dir" in decision.message
    assert fake.drained == {}


def test_a_dry_run_takes_no_seat(fake, folder):
    settings = DrainSettings(jitter_s=0, scontrol=fake.program, seats_dir=str(folder))
    decision = drain_node("x", settings, "node01", 7, time.monotonic() + 10, dry_run=True)
    assert decision.outcome is Drained.DRY_RUN
    assert os.listdir(folder) == []
