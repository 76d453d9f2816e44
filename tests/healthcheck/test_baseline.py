"""Growth, not totals: what a node remembers, and how that survives trouble."""

import os

import pytest

from healthcheck.baseline import accept, advance, load_baseline, save_baseline
from healthcheck.model import (
    Aer,
    Baseline,
    Counter,
    Ending,
    Event,
    Gpu,
    Hca,
    Job,
    KernelEvent,
    KernelLog,
    Outcome,
    PciDevice,
    Port,
    Snapshot,
    fail,
)

GPU = "0000:b3:00.0"
NOW = 1_000_000.0


def snapshot(baseline=None, **facts):
    facts.setdefault("uptime_s", 50_000.0)
    return Snapshot(node="n1", taken_at=NOW, boot_id="boot-2", baseline=baseline, **facts)


def remembered(value, boot="boot-2", name="pcie_replays"):
    return Baseline(
        taken_at=NOW - 600, boot_id=boot, counters={f"{GPU}|{name}": Counter(value, NOW - 600)}
    )


@pytest.mark.parametrize(
    ("was", "boot", "now", "lifetime", "delta", "restarted"),
    [
        (5, "boot-2", 5, False, 0, False),
        (5, "boot-2", 9, False, 4, False),
        (5, "boot-2", 2, False, 2, True),  # driver reload
        (5, "boot-1", 7, False, 7, True),  # reboot: all of it is new
        (5, "boot-1", 7, True, 2, False),  # lifetime counters survive a reboot
        (5, "boot-2", 4, True, 0, False),
    ],
)
def test_growth_counts_from_the_baseline(was, boot, now, lifetime, delta, restarted):
    growth = snapshot(remembered(was, boot)).growth(GPU, "pcie_replays", now, lifetime=lifetime)
    assert growth is not None
    assert (growth.delta, growth.restarted) == (delta, restarted)


def test_without_a_baseline_there_is_no_growth():
    assert snapshot().growth(GPU, "pcie_replays", 99) is None
    assert snapshot(Baseline()).growth(GPU, "pcie_replays", 99) is None


def test_a_counter_that_was_not_measured_has_no_growth():
    assert snapshot(remembered(1)).growth(GPU, "pcie_replays", None) is None


def test_a_burst_right_after_the_baseline_is_no_storm():
    growth = snapshot(remembered(0)).growth(GPU, "pcie_replays", 10)
    assert growth.per_minute() == pytest.approx(1.0)
    assert growth.per_hour() == pytest.approx(10.0)


def test_what_failed_keeps_its_old_counters_until_somebody_mends_it():
    node = snapshot(remembered(0), gpus=(Gpu(index=0, bus_id=GPU, pcie_replays=70),))
    failed = (Outcome("x", Ending.FOUND, (fail(GPU, "bad"),)),)
    assert advance(node, failed, "p", None).counters[f"{GPU}|pcie_replays"].value == 0
    assert advance(node, (), "p", None).counters[f"{GPU}|pcie_replays"].value == 70


def test_counters_that_were_not_measured_are_kept():
    assert f"{GPU}|pcie_replays" in advance(snapshot(remembered(3)), (), "p", None).counters


def test_events_carry_the_job_that_ran_when_they_happened():
    log = KernelLog(8, (KernelEvent("xid", 7, 49_000.0, "Xid 13", code=13, subject=GPU),))
    first = advance(snapshot(), (), "p", Job(job_id=11, uid=1000))
    second = advance(snapshot(first, kernel_log=log), (), "p", Job(job_id=12, uid=1001))
    (event,) = second.events
    assert (event.job_id, event.uid, event.at) == (11, 1000, NOW - 1000.0)
    assert second.kernel_log_sequence == 8
    assert second.last_job.job_id == 12


def test_link_downed_growth_becomes_an_event():
    port = Port(1, counters={"link_downed": 4})
    baseline = Baseline(boot_id="boot-2", counters={"mlx5_0/1|link_downed": Counter(1, NOW - 60)})
    node = snapshot(baseline, hcas=(Hca("mlx5_0", (port,)),))
    (event,) = advance(node, (), "p", None).events
    assert (event.kind, event.subject, event.count) == ("link-downed", "mlx5_0/1", 3)


def test_events_of_an_earlier_boot_judge_only_where_asked_for_a_time():
    old = Event("xid", NOW - 3600, "boot-1", code=79, subject=GPU)
    node = snapshot(Baseline(events=(old,)))
    assert node.events("xid") == []
    assert node.events("xid", within_s=86_400) == [old]
    assert node.events("xid", within_s=60) == []


def test_accepted_events_judge_no_more():
    event = Event("xid", NOW - 10, "boot-2", code=79, subject=GPU)
    assert snapshot(Baseline(events=(event,))).events("xid") == [event]
    assert snapshot(accept(Baseline(events=(event,)), NOW)).events("xid") == []


def test_remembered_events_are_bounded():
    events = tuple(Event("xid", NOW - i, "boot-2", code=13) for i in range(5000))
    assert len(advance(snapshot(Baseline(events=events)), (), "p", None).events) == 256


def test_a_saved_baseline_comes_back(tmp_path):
    baseline = remembered(7)
    assert save_baseline(str(tmp_path), baseline) is None
    assert load_baseline(str(tmp_path)) == (baseline, None)
    assert os.listdir(tmp_path) == ["baseline.json"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"version":1,"counters":{"a":[1', b"\x00\xff" * 99, b'{"version":99}', b"[]"],
)
def test_a_state_file_cut_short_or_foreign_is_set_aside(tmp_path, data):
    (tmp_path / "baseline.json").write_bytes(data)
    baseline, note = load_baseline(str(tmp_path))
    assert baseline is None
    assert "set aside" in note
    assert (tmp_path / "baseline.json.set-aside").read_bytes() == data
    assert save_baseline(str(tmp_path), remembered(1)) is None


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path):
    (tmp_path / "file").write_text("")
    note = save_baseline(str(tmp_path / "file" / "state"), remembered(1))
    assert "growth will be measured from the older baseline" in note


def test_a_missing_baseline_is_no_note(tmp_path):
    assert load_baseline(str(tmp_path / "nowhere")) == (None, None)


def test_link_downed_of_a_failed_port_is_no_event_twice():
    port = Port(1, counters={"link_downed": 4})
    baseline = Baseline(boot_id="boot-2", counters={"mlx5_0/1|link_downed": Counter(3, NOW - 60)})
    node = snapshot(baseline, hcas=(Hca("mlx5_0", (port,)),))
    failed = (Outcome("ib-ports", Ending.FOUND, (fail("mlx5_0/1", "down"),)),)
    after = advance(node, failed, "p", None)
    assert after.counters["mlx5_0/1|link_downed"].value == 4
    assert len(after.events) == 1


def test_a_reboot_is_no_link_down_event():
    port = Port(1, counters={"link_downed": 4})
    baseline = Baseline(boot_id="boot-1", counters={"mlx5_0/1|link_downed": Counter(3, NOW - 60)})
    node = snapshot(baseline, hcas=(Hca("mlx5_0", (port,)),))
    assert advance(node, (), "p", None).events == ()


def test_errors_counted_by_the_bridge_above_a_failed_device_are_found_again():
    bridge = PciDevice("0000:b2:00.0", "bridge", "0x1000", "0xc030", aer=Aer({}, {}, {"DLP": 3}))
    gpu = PciDevice(GPU, "gpu", "0x10de", "0x2330", parent=bridge.bus_id)
    baseline = Baseline(
        boot_id="boot-2", counters={f"{bridge.bus_id}|aer_fatal": Counter(0, NOW - 60)}
    )
    node = snapshot(baseline, pci=(gpu, bridge))
    failed = (Outcome("pcie-aer", Ending.FOUND, (fail(GPU, "3 fatal errors"),)),)
    assert advance(node, failed, "p", None).counters[f"{bridge.bus_id}|aer_fatal"].value == 0
    assert advance(node, (), "p", None).counters[f"{bridge.bus_id}|aer_fatal"].value == 3


def test_on_a_shared_node_nobody_is_charged_with_later_events():
    gpus = tuple(Gpu(index=i, bus_id=f"0000:0{i}:00.0", minor_number=i) for i in range(2))
    whole = Job(job_id=11, uid=1000, gpu_minors=(0, 1))
    part = Job(job_id=12, uid=1001, gpu_minors=(1,))
    alone, shared = snapshot(gpus=gpus, job=whole), snapshot(gpus=gpus, job=part)
    assert advance(alone, (), "p", whole).last_job.job_id == 11
    assert advance(shared, (), "p", part).last_job is None


def test_a_storm_counts_as_often_as_it_happened():
    log = KernelLog(9, (KernelEvent("xid", 7, 49_000.0, "Xid 13", code=13, count=90),))
    (event,) = advance(snapshot(kernel_log=log), (), "p", None).events
    assert event.count == 90
