"""PCIe checks on hand-built snapshots."""

from typing import Any

import msgspec
import pytest

from healthcheck.checks.pcie_aer import Limits as AerLimits
from healthcheck.checks.pcie_aer import pcie_aer
from healthcheck.checks.pcie_generation import Limits as GenerationLimits
from healthcheck.checks.pcie_generation import pcie_generation
from healthcheck.checks.pcie_replay import Limits as ReplayLimits
from healthcheck.checks.pcie_replay import pcie_replay
from healthcheck.checks.pcie_responsive import pcie_responsive
from healthcheck.checks.pcie_width import Limits as WidthLimits
from healthcheck.checks.pcie_width import pcie_width
from healthcheck.model import (
    Aer,
    Baseline,
    Counter,
    Finding,
    Gpu,
    NotApplicable,
    PciDevice,
    Severity,
    Snapshot,
    Unmeasured,
)
from healthcheck.model.fabric import upstream
from healthcheck.registry import NoLimits

NOW = 100_000.0
ROOT, UP, DOWN, GPU = "0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"
NIC_PORT, NIC = "0000:02:01.0", "0000:04:00.0"


def device(bus_id: str, kind: str, parent: str | None, **facts: Any) -> PciDevice:
    usual: dict[str, Any] = {
        "link_width": 16,
        "link_width_max": 16,
        "link_speed_gt_s": 32.0,
        "link_speed_max_gt_s": 32.0,
        "config_dead": False,
        "rdma": True if kind == "nic" else None,
    }
    return PciDevice(bus_id, kind, "0x10de", "0x2330", parent=parent, **(usual | facts))


TREE = {
    ROOT: device(ROOT, "bridge", None),
    UP: device(UP, "bridge", ROOT),
    DOWN: device(DOWN, "bridge", UP),
    NIC_PORT: device(NIC_PORT, "bridge", UP),
    GPU: device(GPU, "gpu", DOWN),
    NIC: device(NIC, "nic", NIC_PORT),
}


def node(
    changes: dict[str, dict[str, Any]] | None = None,
    gpu: dict[str, Any] | None = None,
    was: dict[str, int] | None = None,
    ago: float = 3600.0,
    **facts: Any,
) -> Snapshot:
    tree = dict(TREE)
    for bus_id, new in (changes or {}).items():
        tree[bus_id] = msgspec.structs.replace(tree[bus_id], **new)
    counters = {key: Counter(value, NOW - ago) for key, value in (was or {}).items()}
    baseline = Baseline(taken_at=NOW - ago, boot_id="b", counters=counters)
    return Snapshot(
        node="n1",
        taken_at=NOW,
        boot_id="b",
        baseline=None if was is None else baseline,
        pci=tuple(tree.values()),
        gpus=(Gpu(0, GPU, **(gpu or {})),),
        **facts,
    )


def told(findings: Any) -> list[tuple[str, str]]:
    return [(f.severity.value, f.subject) for f in findings]


def only(findings: Any) -> Finding:
    (finding,) = findings
    assert isinstance(finding, Finding)
    return finding


# width

WIDE = WidthLimits(gpu=16, nic=16)


@pytest.mark.parametrize(
    ("changes", "gpu", "expected"),
    [
        ({}, {"pcie_width": 16}, []),
        ({GPU: {"link_width": 8}}, {"pcie_width": 8}, [("fail", GPU)]),
        ({GPU: {"link_width": 8}}, {}, [("fail", GPU)]),
        ({}, {"pcie_width": 8}, [("fail", GPU)]),
        ({GPU: {"link_width": 8}, DOWN: {"link_width_max": 8}}, {}, [("fail", GPU)]),
        ({GPU: {"link_width": 0}}, {}, [("fail", GPU)]),
        ({GPU: {"link_width": 0, "link_width_max": 0}}, {"pcie_width": 16}, []),
        ({GPU: {"link_width": 8, "virtual": True}}, {}, []),
        ({GPU: {"link_width": None, "config_dead": True}}, {}, []),
        ({NIC: {"link_width": 8}}, {}, [("fail", NIC)]),
        ({NIC: {"link_width": 8, "link_width_max": 8}}, {}, []),
        ({NIC: {"link_width": 8}, NIC_PORT: {"link_width_max": 8}}, {}, [("warn", NIC)]),
        ({NIC: {"link_width": 8, "rdma": False}}, {}, []),
    ],
)
def test_width(
    changes: dict[str, Any], gpu: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert told(pcie_width(node(changes, gpu), WIDE)) == expected


def test_a_narrow_link_names_the_port_above_and_both_figures() -> None:
    finding = only(pcie_width(node({GPU: {"link_width": 8}}), WIDE))
    assert DOWN in finding.message
    assert (finding.measured, finding.expected, finding.limit) == (8, 16, "gpu")


def test_a_slot_without_the_lanes_is_named_as_the_culprit() -> None:
    changes = {GPU: {"link_width": 4}, DOWN: {"link_width_max": 4}}
    finding = only(pcie_width(node(changes), WIDE))
    assert f"{DOWN} offers only x4" in finding.message
    assert finding.action == "replace"


def test_addresses_to_skip_are_skipped() -> None:
    limits = WidthLimits(gpu=16, nic=16, skip=(NIC,))
    assert told(pcie_width(node({NIC: {"link_width": 8}}), limits)) == []


def test_width_without_an_expectation_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        list(pcie_width(node(), WidthLimits()))


def test_width_that_nobody_could_read_is_unmeasured() -> None:
    with pytest.raises(Unmeasured):
        list(pcie_width(node({GPU: {"link_width": None}}), WidthLimits(gpu=16)))


# generation

FIFTH = GenerationLimits(gpu=5, nic=5)


@pytest.mark.parametrize(
    ("changes", "gpu", "expected"),
    [
        ({}, {"pcie_generation": 5, "pcie_generation_max": 5}, []),
        ({GPU: {"link_speed_gt_s": 2.5}}, {"pcie_generation": 1, "utilization_percent": 0}, []),
        ({GPU: {"link_speed_gt_s": 2.5}}, {}, []),
        ({}, {"pcie_generation": 3, "utilization_percent": 97}, [("fail", GPU)]),
        ({GPU: {"link_speed_gt_s": 8.0}}, {"utilization_percent": 97}, [("fail", GPU)]),
        ({}, {"pcie_generation": 3, "utilization_percent": 49}, []),
        ({}, {"pcie_generation_max": 4}, [("fail", GPU)]),
        ({DOWN: {"link_speed_max_gt_s": 16.0}}, {}, [("fail", GPU)]),
        ({GPU: {"link_speed_max_gt_s": 16.0}}, {}, [("fail", GPU)]),
        ({NIC: {"link_speed_gt_s": 16.0}}, {}, [("fail", NIC)]),
        ({NIC: {"link_speed_gt_s": 16.0, "link_speed_max_gt_s": 16.0}}, {}, []),
        (
            {NIC: {"link_speed_gt_s": 16.0}, NIC_PORT: {"link_speed_max_gt_s": 16.0}},
            {},
            [("warn", NIC)],
        ),
        ({NIC: {"link_speed_gt_s": None}}, {}, []),
    ],
)
def test_generation(
    changes: dict[str, Any], gpu: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert told(pcie_generation(node(changes, gpu), FIFTH)) == expected


def test_a_bad_riser_is_told_apart_from_a_card_that_offers_no_more() -> None:
    riser = only(pcie_generation(node({DOWN: {"link_speed_max_gt_s": 8.0}}), FIFTH))
    card = only(pcie_generation(node({GPU: {"link_speed_max_gt_s": 8.0}}), FIFTH))
    hidden = only(pcie_generation(node({}, {"pcie_generation_max": 3}), FIFTH))
    assert DOWN in riser.message and "riser" in riser.message
    assert "the card itself" in card.message
    assert "NVML's maximum" in hidden.message


def test_speeds_that_nobody_could_read_are_unmeasured() -> None:
    gone = {GPU: {"link_speed_gt_s": None, "link_speed_max_gt_s": None}}
    with pytest.raises(Unmeasured):
        list(pcie_generation(node(gone), GenerationLimits(gpu=5)))


# replays


@pytest.mark.parametrize(
    ("was", "now", "ago", "expected"),
    [
        (0, 480, 3600.0, []),
        (0, 482, 3600.0, [("warn", GPU)]),
        (1_000_000, 1_000_000, 60.0, []),
        (0, 9, 5.0, [("warn", GPU)]),
        (0, 8, 5.0, []),
        (500, 3, 60.0, []),
    ],
)
def test_replays_by_rate(was: int, now: int, ago: float, expected: list[tuple[str, str]]) -> None:
    seen = node(gpu={"pcie_replays": now}, was={f"{GPU}|pcie_replays": was}, ago=ago)
    assert told(pcie_replay(seen, ReplayLimits())) == expected


def test_replays_without_a_baseline_say_nothing() -> None:
    assert told(pcie_replay(node(gpu={"pcie_replays": 10**6}), ReplayLimits())) == []


def test_a_gpu_that_does_not_count_replays_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        list(pcie_replay(node(), ReplayLimits()))


# AER


def aer(correctable: int = 0, nonfatal: int = 0, fatal: int = 0) -> Aer:
    kinds = {"BadTLP": correctable}, {"Completion Timeout": nonfatal}, {"Malformed TLP": fatal}
    return Aer(*({n: c for n, c in kind.items() if c} for kind in kinds))


def counted(now: dict[str, Aer], was: dict[str, Aer], ago: float = 3600.0) -> Snapshot:
    before = {
        f"{bus_id}|aer_{kind}": sum(getattr(was.get(bus_id, aer()), kind).values())
        for bus_id in TREE
        for kind in ("correctable", "nonfatal", "fatal")
    }
    changes = {bus_id: {"aer": now.get(bus_id, aer())} for bus_id in TREE}
    return node(changes, was=before, ago=ago)


@pytest.mark.parametrize(
    ("now", "was", "expected"),
    [
        ({}, {}, []),
        ({GPU: aer(fatal=1)}, {}, [("fail", GPU)]),
        ({GPU: aer(nonfatal=1)}, {}, [("fail", GPU)]),
        ({GPU: aer(fatal=7)}, {GPU: aer(fatal=7)}, []),
        ({DOWN: aer(fatal=1)}, {}, [("fail", GPU)]),
        ({GPU: aer(fatal=1), DOWN: aer(fatal=1)}, {}, [("fail", GPU)]),
        ({ROOT: aer(fatal=1)}, {}, [("fail", UP)]),
        ({UP: aer(fatal=1), ROOT: aer(fatal=1)}, {}, [("fail", UP)]),
        ({NIC_PORT: aer(nonfatal=2), GPU: aer(fatal=1)}, {}, [("fail", GPU), ("fail", NIC)]),
        ({GPU: aer(correctable=120)}, {}, []),
        ({GPU: aer(correctable=121)}, {}, [("warn", GPU)]),
        ({DOWN: aer(correctable=5000), GPU: aer(correctable=9)}, {}, [("warn", GPU)]),
        (
            {GPU: aer(correctable=5000, fatal=1)},
            {},
            [("fail", GPU), ("warn", GPU)],
        ),
    ],
)
def test_aer(now: dict[str, Aer], was: dict[str, Aer], expected: list[tuple[str, str]]) -> None:
    assert sorted(told(pcie_aer(counted(now, was), AerLimits()))) == sorted(expected)


def test_an_error_counted_by_the_link_partner_names_who_counted_and_what() -> None:
    finding = only(pcie_aer(counted({DOWN: aer(fatal=2)}, {}), AerLimits()))
    assert f"counted by {DOWN}: Malformed TLP" in finding.message
    assert (finding.subject, finding.measured) == (GPU, 2)


def test_both_functions_of_a_card_make_one_finding_about_the_first() -> None:
    seen = counted({NIC: aer(fatal=1)}, {})
    second = device("0000:04:00.1", "nic", NIC_PORT, aer=aer(fatal=1))
    assert seen.baseline is not None and seen.pci is not None
    counters = seen.baseline.counters | {f"{second.bus_id}|aer_fatal": Counter(0, NOW - 60)}
    seen = msgspec.structs.replace(
        seen,
        pci=(*seen.pci, second),
        baseline=msgspec.structs.replace(seen.baseline, counters=counters),
    )
    assert told(pcie_aer(seen, AerLimits())) == [("fail", NIC)]


def test_totals_without_a_baseline_judge_nobody() -> None:
    assert told(pcie_aer(node({GPU: {"aer": aer(fatal=9)}}), AerLimits())) == []


def test_a_machine_whose_kernel_counts_nothing_is_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        list(pcie_aer(node(), AerLimits()))


def test_counters_that_were_there_before_and_are_gone_are_unmeasured() -> None:
    with pytest.raises(Unmeasured):
        list(pcie_aer(node(was={f"{GPU}|aer_fatal": 0}), AerLimits()))


# silent devices


@pytest.mark.parametrize(
    ("dead", "expected"),
    [
        ([], []),
        ([NIC], [("fail", NIC)]),
        ([GPU], []),
        ([DOWN, GPU], [("fail", DOWN)]),
        ([UP, DOWN, NIC_PORT, GPU, NIC], [("fail", UP)]),
    ],
)
def test_silent_devices(dead: list[str], expected: list[tuple[str, str]]) -> None:
    seen = node({bus_id: {"config_dead": True} for bus_id in dead})
    assert told(pcie_responsive(seen, NoLimits())) == expected


def test_a_silent_bridge_names_what_is_behind_it() -> None:
    finding = only(pcie_responsive(node({UP: {"config_dead": True}}), NoLimits()))
    assert finding.severity is Severity.FAIL
    assert GPU in finding.message and NIC in finding.message


def test_upstream_walks_to_the_root_and_survives_a_ring() -> None:
    assert [d.bus_id for d in upstream(TREE.values(), GPU)] == [DOWN, UP, ROOT]
    assert upstream(TREE.values(), "0000:ff:00.0") == ()
    ring = (device("a", "bridge", "b"), device("b", "bridge", "a"))
    assert len(upstream(ring, "a")) <= 2
    seen = Snapshot("n", NOW, pci=tuple(msgspec.structs.replace(d, aer=aer()) for d in ring))
    assert told(pcie_aer(seen, AerLimits())) == []
