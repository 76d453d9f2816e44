"""NVLinks, their errors, the fabric and peer access."""

from datetime import date
from itertools import combinations

import pytest

from healthcheck.config import CheckSettings
from healthcheck.judge import judge_one
from healthcheck.model import Baseline, Counter, Ending, Fabric, Gpu, NvLink, P2pPair, Snapshot
from healthcheck.profile import Profile
from healthcheck.registry import load_checks

DAY = date(2026, 12, 1)


def outcome(name, node, **limits):
    """How a check ends on this node; limits as a site would set them."""
    declared = load_checks()[0][name]
    return judge_one(node, declared, Profile("p", "P"), CheckSettings(limits=limits), DAY)


def told(name, node, **limits):
    """(severity, subject, action) of all findings."""
    return [
        (str(f.severity), f.subject, str(f.action)) for f in outcome(name, node, **limits).findings
    ]


BUS = tuple(f"0000:{index:02x}:00.0" for index in range(16, 24))
UP = tuple(NvLink(index, True, 26562, 0, 0, 0, 0) for index in range(18))
JOINED = Fabric(3, 0, 0, None, 0, 1)


def links(**changed):
    """18 links, number 7 with other facts."""
    facts = {"active": True, "speed_mb_s": 26562} | changed
    return (*UP[:7], NvLink(7, **facts), *UP[8:])


def node(one=None, everyone=None, **facts):
    gpus = tuple(
        Gpu(
            index,
            bus_id,
            **(
                {"nvlinks": UP, "fabric": JOINED}
                | (everyone or {})
                | ((one or {}) if index == 3 else {})
            ),
        )
        for index, bus_id in enumerate(BUS)
    )
    return Snapshot("n", 4600.0, gpus=gpus, **facts)


def test_all_links_up_pass():
    assert outcome("nvlink-links", node(), links=18).outcome is Ending.PASSED


@pytest.mark.parametrize(
    ("nvlinks", "words"),
    [
        (links(active=False), "17 of 18 NVLinks active (down 7)"),
        (links(active=None), "17 of 18 NVLinks active (not answering 7)"),
        (UP[:16], "16 of 18 NVLinks active (not reported 16-17)"),
        (None, "0 of 18 NVLinks active (not reported 0-17)"),
    ],
)
def test_missing_links_fail_and_are_named(nvlinks, words):
    found = outcome("nvlink-links", node({"nvlinks": nvlinks}), links=18).findings
    assert [(str(f.severity), f.subject, f.message) for f in found] == [("fail", BUS[3], words)]


def test_no_links_on_any_gpu_is_one_finding_about_the_fabric():
    found = outcome("nvlink-links", node(everyone={"nvlinks": ()}), links=18).findings
    assert [(f.subject, str(f.action)) for f in found] == [("node", "reboot")]
    assert "fabric manager" in found[0].message


def test_mig_gpus_are_left_alone():
    cut = {"nvlinks": None, "fabric": None, "mig_enabled": True}
    for name, limits in (("nvlink-links", {"links": 18}), ("nvlink-fabric", {"required": True})):
        assert outcome(name, node(cut), **limits).outcome is Ending.PASSED
        assert outcome(name, node(everyone=cut), **limits).outcome is Ending.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("speed", "active", "found"),
    [(26562, True, []), (26561, True, ["fail"]), (0, False, []), (None, True, [])],
)
def test_speed_of_active_links(speed, active, found):
    slow = node({"nvlinks": links(speed_mb_s=speed, active=active)})
    assert [s for s, _, _ in told("nvlink-speed", slow, speed_mb_s=26562)] == found


def grown(counter, before, now):
    counters = {f"{BUS[3]}|nvlink7_{counter}": Counter(before, 1000.0)}
    baseline = Baseline(boot_id="b", counters=counters)
    return node({"nvlinks": links(**{counter: now})}, boot_id="b", baseline=baseline)


@pytest.mark.parametrize(
    ("counter", "before", "now", "found"),
    [
        ("recovery_errors", 9, 9, []),
        ("recovery_errors", 9, 10, [("fail", BUS[3], "reset-gpu")]),
        ("recovery_failed_events", 0, 1, [("fail", BUS[3], "reset-gpu")]),
        ("replay_errors", 100000, 100100, []),
        ("replay_errors", 0, 101, [("warn", BUS[3], "none")]),
        ("integrity_errors", 0, 101, [("warn", BUS[3], "none")]),
        ("crc_flit_errors", 0, 101, [("warn", BUS[3], "none")]),
        ("crc_data_errors", 0, 101, [("warn", BUS[3], "none")]),
        ("crc_data_errors", 500, 101, [("warn", BUS[3], "none")]),  # began again
    ],
)
def test_link_errors_are_judged_by_growth(counter, before, now, found):
    assert told("nvlink-errors", grown(counter, before, now)) == found


def test_link_errors_without_a_baseline_are_not_judged():
    assert told("nvlink-errors", node({"nvlinks": links(recovery_errors=99)})) == []


@pytest.mark.parametrize(
    ("fabric", "uptime", "found"),
    [
        (JOINED, 1e6, []),
        (Fabric(3, 0, 0, None, 0, 0), 1e6, []),
        (Fabric(3, 0, 0, None, 0b10101010, 1), 1e6, []),
        (Fabric(2, 0), 60.0, [("warn", BUS[3], "none")]),
        (Fabric(2, 0), 301.0, [("fail", BUS[3], "reboot")]),
        (Fabric(2, 0), None, [("fail", BUS[3], "reboot")]),
        (Fabric(1, 0), 60.0, [("fail", BUS[3], "reboot")]),
        (Fabric(0, 0), 1e6, [("fail", BUS[3], "reboot")]),
        (None, 1e6, [("fail", BUS[3], "reboot")]),
        (Fabric(3, 999, 0), 1e6, [("fail", BUS[3], "reboot")]),
        (Fabric(3, 0, 0, None, 0, 2), 1e6, [("fail", BUS[3], "reboot")]),
        (Fabric(3, 0, 0, None, 0, 3), 1e6, [("warn", BUS[3], "reset-gpu")]),
        (Fabric(3, 0, 0, None, 0b01, None), 1e6, [("warn", BUS[3], "reset-gpu")]),
        (Fabric(3, 0, 0, None, 0b010000, None), 1e6, [("fail", BUS[3], "reboot")]),
    ],
)
def test_fabric_states(fabric, uptime, found):
    sick = node({"fabric": fabric}, uptime_s=uptime)
    assert told("nvlink-fabric", sick, required=True) == found


def test_a_fabric_that_no_gpu_joined_is_one_finding():
    sick = node(everyone={"fabric": Fabric(1, 0)}, uptime_s=1e6)
    assert told("nvlink-fabric", sick, required=True) == [("fail", "node", "reboot")]


def test_a_driver_that_does_not_know_the_fabric_is_unmeasured():
    blind = node(everyone={"fabric": None})
    assert outcome("nvlink-fabric", blind, required=True).outcome is Ending.UNMEASURED
    assert outcome("nvlink-fabric", blind, required=False).outcome is Ending.NOT_APPLICABLE


def test_gpus_of_one_node_in_two_cliques_fail():
    split = node(
        {"fabric": Fabric(3, 0, 1, "ab", 0, 1)}, everyone={"fabric": Fabric(3, 0, 0, "ab")}
    )
    assert told("nvlink-fabric", split, required=True) == [("fail", "node", "reboot")]


def pairs(bad):
    return tuple(P2pPair(a, b, 3 if bad(a, b) else 0) for a, b in combinations(BUS, 2))


def test_peer_access_of_all_pairs_passes():
    fine = node(p2p=pairs(lambda a, b: False))
    assert outcome("nvlink-p2p", fine, required=True).outcome is Ending.PASSED


def test_the_gpu_that_all_bad_pairs_share_is_named_once():
    found = outcome("nvlink-p2p", node(p2p=pairs(lambda a, b: BUS[3] in (a, b))), required=True)
    assert [(f.subject, f.measured) for f in found.findings] == [(BUS[3], 7)]
    assert "topology not supported" in found.findings[0].message


def test_one_bad_pair_names_both_ends():
    found = outcome("nvlink-p2p", node(p2p=pairs(lambda a, b: {a, b} == {*BUS[:2]})), required=True)
    assert [(f.subject, f.measured) for f in found.findings] == [(BUS[0], 1)]
    assert BUS[1] in found.findings[0].message


def test_all_pairs_bad_is_one_finding_about_the_node():
    found = told("nvlink-p2p", node(p2p=pairs(lambda a, b: True)), required=True)
    assert found == [("fail", "node", "reboot")]


def test_peer_access_that_could_not_be_asked_is_unmeasured():
    assert outcome("nvlink-p2p", node(p2p=()), required=True).outcome is Ending.UNMEASURED
    assert outcome("nvlink-p2p", node(p2p=()), required=False).outcome is Ending.NOT_APPLICABLE
