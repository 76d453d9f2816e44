"""The node's own log of events: what becomes one, and what survives."""

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor

import msgspec
import pytest

from healthcheck import event_log
from healthcheck.event_log import FILE, OLDER, read_since, record
from healthcheck.events import (
    STANDING,
    Deed,
    Standing,
    events_of,
    load_standing,
    machine_events,
    remember,
    standing_after,
)
from healthcheck.model import (
    Baseline,
    Counter,
    Ending,
    Hca,
    Job,
    KernelEvent,
    KernelLog,
    LastJob,
    Outcome,
    Port,
    Report,
    Snapshot,
    fail,
    info,
    verdict_of,
    warn,
)
from healthcheck.node_event import MAX_EVENTS, NodeEvent, bounded, job_failures, new_id

NOW = 1_790_000_000.0


def look(*outcomes, stage="prolog"):
    return Report(verdict_of(outcomes), "node01", "h100-sxm", stage, 0.1, outcomes)


def passed(check):
    return Outcome(check, Ending.PASSED)


def found(check, *findings):
    return Outcome(check, Ending.FOUND, findings)


LOST = fail("0000:b3:00.0", "7 of 8 GPUs visible")
HOT = warn("0000:b3:00.0", "84 °C")


def event(number, **fields):
    return NodeEvent(f"{number:032x}", NOW + number, "node01", "xid", **fields)


def kinds(events):
    return [one.kind for one in events]


class TestWhatBecomesAnEvent:
    def test_a_first_look_tells_its_verdict(self):
        (first,) = events_of(look(passed("xid")), Standing(), None, None, NOW)
        assert (first.kind, first.verdict, first.before) == ("verdict", "go", None)

    def test_a_healthy_look_after_a_healthy_look_tells_nothing(self):
        report = look(passed("xid"), found("clock", info("node", "fine")))
        before = standing_after(report, Standing())
        assert events_of(report, before, None, None, NOW) == []

    def test_a_failing_look_tells_verdict_deed_and_findings(self):
        job = Job(4711, uid=1000)
        before = standing_after(look(passed("gpu-count")), Standing())
        report = look(found("gpu-count", LOST))
        deed = Deed("drain", "drained", "flightcheck: no-go gpu-count: 7 of 8")
        events = events_of(report, before, deed, job, NOW, "boot")
        assert kinds(events) == ["verdict", "drain", "finding"]
        assert (events[0].before, events[0].verdict) == ("go", "no-go")
        assert events[1].outcome == "drained"
        told = events[2]
        assert (told.check, told.severity, told.subject) == ("gpu-count", "fail", "0000:b3:00.0")
        assert {one.job_id for one in events} == {4711}
        assert {one.boot_id for one in events} == {"boot"}
        assert len({one.id for one in events}) == 3

    def test_a_finding_that_stands_is_told_once(self):
        report = look(found("gpu-count", LOST))
        before = standing_after(report, Standing())
        assert events_of(report, before, None, None, NOW) == []

    def test_a_finding_that_gets_worse_is_told_again(self):
        before = standing_after(look(found("gpu-temperature", HOT)), Standing())
        worse = look(found("gpu-temperature", fail("0000:b3:00.0", "92 °C")))
        assert kinds(events_of(worse, before, None, None, NOW)) == ["verdict", "finding"]

    def test_a_finding_that_went_is_cleared(self):
        before = standing_after(look(found("gpu-temperature", HOT)), Standing())
        events = events_of(look(passed("gpu-temperature")), before, None, None, NOW)
        assert [(one.kind, one.check) for one in events] == [
            ("verdict", None),
            ("cleared", "gpu-temperature"),
        ]
        assert standing_after(look(passed("gpu-temperature")), before).findings == {}

    @pytest.mark.parametrize("ending", [Ending.UNMEASURED, Ending.ERROR, Ending.TIMED_OUT])
    def test_a_check_that_could_not_judge_clears_nothing(self, ending):
        before = standing_after(look(found("gpu-temperature", HOT)), Standing())
        blind = look(Outcome("gpu-temperature", ending, reason="no answer"))
        assert kinds(events_of(blind, before, None, None, NOW)) == ["verdict"]
        assert standing_after(blind, before).findings == before.findings

    def test_stages_do_not_contradict_each_other(self):
        before = standing_after(look(found("processes", HOT), stage="health"), Standing())
        before = standing_after(look(passed("xid")), before)
        assert events_of(look(passed("xid")), before, None, None, NOW) == []
        assert events_of(look(found("processes", HOT), stage="health"), before, None, None, 0) == []


def with_log(*events, sequence=9, baseline=None):
    return Snapshot(
        "node01", NOW, boot_id="boot", uptime_s=500.0, baseline=baseline,
        kernel_log=KernelLog(sequence, events),
    )  # fmt: skip


class TestTheMachinesEvents:
    XID = KernelEvent("xid", 7, 450.5, "GPU has fallen off the bus.", 79, "0000:b3:00.0", count=3)

    def test_an_xid_is_told_with_the_job_that_had_the_node(self):
        node = with_log(self.XID, baseline=Baseline(boot_id="boot", last_job=LastJob(4711, 1000)))
        (told,) = machine_events(node)
        assert (told.kind, told.code, told.subject, told.count) == ("xid", 79, "0000:b3:00.0", 3)
        assert (told.job_id, told.uid, told.at) == (4711, 1000, NOW - 49.5)

    def test_the_same_line_read_twice_has_the_same_id(self):
        later = msgspec.structs.replace(with_log(self.XID), taken_at=NOW + 60, uptime_s=560.001)
        assert [one.id for one in machine_events(later)] == [
            one.id for one in machine_events(with_log(self.XID))
        ]

    def test_another_boot_or_line_has_another_id(self):
        other_boot = msgspec.structs.replace(with_log(self.XID), boot_id="other")
        other_line = with_log(msgspec.structs.replace(self.XID, sequence=8))
        ids = {one.id for n in (with_log(self.XID), other_boot, other_line)
               for one in machine_events(n)}  # fmt: skip
        assert len(ids) == 3

    def test_a_link_that_went_down_is_told(self):
        baseline = Baseline(
            boot_id="boot", taken_at=NOW - 60, counters={"mlx5_0/1|link_downed": Counter(2, NOW)}
        )
        node = Snapshot(
            "node01", NOW, boot_id="boot", baseline=baseline,
            hcas=(Hca("mlx5_0", ports=(Port(1, counters={"link_downed": 5}),)),),
        )  # fmt: skip
        (told,) = machine_events(node)
        assert (told.kind, told.subject, told.count) == ("link-downed", "mlx5_0/1", 3)


class TestFailedJobs:
    def test_every_node_that_tells_of_a_job_tells_the_same(self):
        def tell(reporter):
            return job_failures(
                reporter, 4711, "hardware/gpu-lost", ["node02", "node02"], at=NOW, nodes=8
            )

        (one,), (two,) = tell("node01"), tell("node03")
        assert one == two
        assert (one.node, one.root, one.nodes) == ("node02", True, 8)

    def test_a_failure_without_a_root_belongs_to_nobody(self):
        (one,) = job_failures("node01", 4711, "user/nan", [], at=NOW, nodes=1)
        assert (one.node, one.root) == ("node01", False)

    def test_a_job_number_that_is_given_again_is_another_job(self):
        ids = {
            job_failures("n", 1, "c/d", ["n"], at=NOW, nodes=1, started_at=start)[0].id
            for start in (None, 1.0, 2.0)
        }
        assert len(ids) == 3


class TestTheLog:
    def test_what_was_recorded_is_read_once(self, tmp_path):
        folder = str(tmp_path / "state")
        assert record(folder, [event(1), event(2, message="ü\n\x1b[31m")]) is None
        # A cursor is a time in milliseconds: what was written within the same one comes again,
        # and its id tells the reader.
        time.sleep(0.002)
        page = read_since(folder)
        time.sleep(0.002)
        assert page.events == (event(1), event(2, message="ü\n\x1b[31m"))
        record(folder, [event(3)])
        assert read_since(folder, page.now).events == (event(3),)

    def test_nobody_else_may_read_it(self, tmp_path):
        folder = tmp_path / "state"
        record(str(folder), [event(1)])
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / FILE).stat().st_mode & 0o777 == 0o600

    def test_a_node_without_a_log_has_no_events(self, tmp_path):
        assert read_since(str(tmp_path)).events == ()

    @pytest.mark.parametrize("cut", range(2, 60, 7))
    def test_a_line_cut_by_a_crash_is_dropped_and_the_next_is_whole(self, tmp_path, cut):
        folder = str(tmp_path)
        record(folder, [event(1), event(2)])
        path = tmp_path / FILE
        os.truncate(path, path.stat().st_size - cut)
        page = read_since(folder)
        assert page.events == (event(1),)
        record(folder, [event(3)])
        after = read_since(folder)
        assert after.events == (event(1), event(3))
        assert after.broken == 1

    @pytest.mark.parametrize("junk", [b"\0" * 300, b"\xff\xfe garbage", b"00000000 2 {}", b"1 2 3"])
    def test_a_damaged_line_is_counted_and_skipped(self, tmp_path, junk):
        record(str(tmp_path), [event(1)])
        with open(tmp_path / FILE, "ab") as file:
            file.write(junk + b"\n")
        record(str(tmp_path), [event(2)])
        page = read_since(str(tmp_path))
        assert (page.events, page.broken) == ((event(1), event(2)), 1)

    def test_a_flipped_bit_is_noticed(self, tmp_path):
        record(str(tmp_path), [event(1, message="temperature 84"), event(2)])
        data = (tmp_path / FILE).read_bytes().replace(b"temperature 84", b"temperature 94")
        (tmp_path / FILE).write_bytes(data)
        page = read_since(str(tmp_path))
        assert (page.events, page.broken) == ((event(2),), 1)

    def test_megabytes_without_a_line_end_do_not_stop_the_reader(self, tmp_path):
        record(str(tmp_path), [event(1)])
        with open(tmp_path / FILE, "ab") as file:
            file.write(b"x" * (3 << 20))
        record(str(tmp_path), [event(2)])
        assert read_since(str(tmp_path)).events == (event(1), event(2))

    def test_a_link_in_its_place_is_not_followed(self, tmp_path):
        (tmp_path / "target").write_text("")
        (tmp_path / FILE).symlink_to(tmp_path / "target")
        assert "events were not kept" in record(str(tmp_path), [event(1)])
        assert (tmp_path / "target").read_text() == ""


class TestTurningOver:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(event_log, "MAX_BYTES", 4000)
        monkeypatch.setattr(event_log.os, "fdatasync", lambda fd: None)  # a busy disk takes long

    def test_the_log_is_bounded_and_keeps_the_newest(self, tmp_path):
        for number in range(500):
            record(str(tmp_path), [event(number)])
        sizes = [(tmp_path / name).stat().st_size for name in (FILE, OLDER)]
        assert all(size < 4200 for size in sizes)
        numbers = [int(one.id, 16) for one in read_since(str(tmp_path)).events]
        assert numbers == list(range(numbers[0], 500))
        assert len(numbers) > 30

    def test_what_was_pushed_out_is_said(self, tmp_path):
        record(str(tmp_path), [event(0)])
        asked = read_since(str(tmp_path)).now
        for number in range(1, 200):
            record(str(tmp_path), [event(number)])
        page = read_since(str(tmp_path), asked)
        assert page.lost
        assert int(page.events[-1].id, 16) == 199
        assert not read_since(str(tmp_path), page.now).lost

    def test_one_turning_over_loses_nothing(self, tmp_path):
        record(str(tmp_path), [event(0)])
        asked, number = read_since(str(tmp_path)).now, 0
        while not (tmp_path / OLDER).exists():
            number += 1
            record(str(tmp_path), [event(number)])
        page = read_since(str(tmp_path), asked)
        assert [int(one.id, 16) for one in page.events][-number:] == list(range(1, number + 1))
        assert not page.lost


def test_a_clock_set_back_hides_nothing(tmp_path, monkeypatch):
    record(str(tmp_path), [event(1)])
    asked = read_since(str(tmp_path)).now
    record(str(tmp_path), [event(2)])
    monkeypatch.setattr(event_log.time, "time", lambda: 1000.0)
    record(str(tmp_path), [event(3)])
    assert event(3) in read_since(str(tmp_path), asked).events


def _write_many(arguments):
    folder, writer = arguments
    event_log.MAX_BYTES = 40_000
    event_log.os.fdatasync = lambda fd: None  # in a process of its own
    return [
        record(folder, [event(writer * 1000 + n), event(writer * 1000 + 500 + n)])
        for n in range(50)
    ]


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    with ProcessPoolExecutor(4) as pool:
        notes = list(pool.map(_write_many, [(str(tmp_path), writer) for writer in range(4)]))
    assert notes == [[None] * 50] * 4
    assert sorted(int(one.id, 16) for one in read_since(str(tmp_path)).events) == sorted(
        writer * 1000 + n for writer in range(4) for n in (*range(50), *range(500, 550))
    )


FULL = """
import resource, signal, sys
from healthcheck.event_log import record
from healthcheck.node_event import NodeEvent
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
many = [NodeEvent(f"{n:032x}", 1.0, "node01", "xid") for n in range(9)]
print(record(sys.argv[1], many))
"""


def test_a_full_disk_is_told_and_leaves_no_half_line(tmp_path):
    record(str(tmp_path), [event(1)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "events" in done.stdout and "not kept" in done.stdout
    page = read_since(str(tmp_path))
    assert (page.events, page.broken) == ((event(1),), 0)


class TestRemember:
    SICK = look(found("gpu-count", LOST))

    def test_a_healthy_node_writes_nothing(self, tmp_path):
        report, node = look(passed("xid")), Snapshot("node01", NOW)
        assert remember(str(tmp_path), report, node, None, None, NOW) is None
        stamps = {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
        assert set(stamps) == {FILE, STANDING}
        assert remember(str(tmp_path), report, node, None, None, NOW + 60) is None
        assert stamps == {p.name: p.stat().st_mtime_ns for p in tmp_path.iterdir()}

    def test_a_sick_node_is_told_once(self, tmp_path):
        for _ in range(3):
            remember(str(tmp_path), self.SICK, Snapshot("node01", NOW), None, None, NOW)
        assert kinds(read_since(str(tmp_path)).events) == ["verdict", "finding"]

    @pytest.mark.parametrize("junk", [b"", b"\xff\xff", b"[]", b'{"verdicts": 1}', b"{" * 5000])
    def test_a_standing_that_is_not_ours_begins_anew(self, tmp_path, junk):
        (tmp_path / STANDING).write_bytes(junk)
        assert load_standing(str(tmp_path)) == Standing()
        assert remember(str(tmp_path), self.SICK, Snapshot("n", NOW), None, None, NOW) is None

    def test_a_folder_that_cannot_be_written_is_told(self, tmp_path):
        (tmp_path / "file").write_text("")
        note = remember(str(tmp_path / "file"), self.SICK, Snapshot("n", NOW), None, None, NOW)
        assert "2 events were not kept" in note

    def test_what_could_not_be_kept_is_told_by_the_next_look(self, tmp_path):
        blocker = tmp_path / FILE
        blocker.mkdir()
        assert remember(str(tmp_path), self.SICK, Snapshot("n", NOW), None, None, NOW)
        blocker.rmdir()
        assert remember(str(tmp_path), self.SICK, Snapshot("n", NOW), None, None, NOW) is None
        assert kinds(read_since(str(tmp_path)).events) == ["verdict", "finding"]

    def test_a_storm_is_bounded_and_counted(self):
        events = bounded([event(n) for n in range(1000)])
        assert len(events) == MAX_EVENTS
        assert events[-1].count == 1000 - MAX_EVENTS + 1

    def test_ids_sort_by_time(self):
        assert new_id(NOW) < new_id(NOW + 0.002) < new_id(NOW + 86_400)
        assert new_id(NOW) != new_id(NOW)


class TestASimulatedNode:
    """From a real look at a machine's files to its log."""

    def look(self, node):
        from healthcheck.baseline import load_baseline
        from healthcheck.host import host_at
        from healthcheck.runner import Request, run

        before, _ = load_baseline(str(node.state))
        assert before is not None
        result = run(Request(host_at(str(node.root)), stage="prolog"))
        now = result.snapshot.taken_at
        note = remember(str(node.state), result.report, result.snapshot, None, None, now)
        assert note is None

    def test_a_healthy_node_has_one_line_however_many_jobs(self, h100):
        for _ in range(3):
            self.look(h100)
        assert kinds(read_since(str(h100.state)).events) == ["verdict"]

    def test_a_gpu_that_fell_off_the_bus_is_told_once_with_its_xid(self, h100):
        self.look(h100)
        h100.break_("xid-79")
        self.look(h100)
        self.look(h100)
        events = read_since(str(h100.state)).events
        assert [(e.before, e.verdict) for e in events if e.kind == "verdict"] == [
            (None, "go"), ("go", "no-go"),
        ]  # fmt: skip
        assert [e.code for e in events if e.kind == "xid"].count(79) == 1
        assert "fail" in {e.severity for e in events if e.kind == "finding"}
        keys = [(e.check, e.subject, e.severity) for e in events if e.kind == "finding"]
        assert len(keys) == len(set(keys))
