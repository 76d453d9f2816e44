"""InfiniBand and RoCE checks on hand-built snapshots."""

from typing import Any

import msgspec
import pytest

from healthcheck.checks.ib_devices import Limits as DeviceLimits
from healthcheck.checks.ib_devices import ib_devices
from healthcheck.checks.ib_errors import Limits as ErrorLimits
from healthcheck.checks.ib_errors import ib_errors
from healthcheck.checks.ib_firmware import Limits as FirmwareLimits
from healthcheck.checks.ib_firmware import ib_firmware
from healthcheck.checks.ib_flap import Limits as FlapLimits
from healthcheck.checks.ib_flap import ib_flap
from healthcheck.checks.ib_hw_errors import Limits as HwLimits
from healthcheck.checks.ib_hw_errors import ib_hw_errors
from healthcheck.checks.ib_ports import Limits as PortLimits
from healthcheck.checks.ib_ports import ib_ports
from healthcheck.model import (
    Baseline,
    Counter,
    Event,
    Hca,
    NotApplicable,
    PciDevice,
    Port,
    Problem,
    Snapshot,
    Unmeasured,
)
from healthcheck.registry import Check, limits_of

NOW, HOUR = 1_000_000.0, 3600.0
UP: dict[str, Any] = {
    "state": "ACTIVE",
    "phys_state": "LinkUp",
    "rate_gb_s": 400.0,
    "link_layer": "InfiniBand",
}
POLLING: dict[str, Any] = {"state": "DOWN", "phys_state": "Polling", "rate_gb_s": 10.0}
NO_SM: dict[str, Any] = {"state": "INIT", "phys_state": "LinkUp", "rate_gb_s": 400.0}
ZERO = {"link_downed": 0, "symbol_error": 0, "link_error_recovery": 0, "port_rcv_errors": 0}


def hca(number: int, **facts: Any) -> Hca:
    own: dict[str, Any] = {
        k: facts.pop(k) for k in ("firmware", "board_id", "virtual", "ports") if k in facts
    }
    port = Port(1, **(UP | {"counters": ZERO} | facts))
    return Hca(
        f"mlx5_{number}",
        own.pop("ports", (port,)),
        bus_id=f"0000:{number:02x}:00.0",
        **({"firmware": "28.39", "board_id": "MT_1"} | own),
    )


def node(
    *hcas: Hca,
    was: dict[str, int] | None = None,
    ago: float = HOUR,
    events: tuple[Event, ...] = (),
    boot: str = "b",
    **facts: Any,
) -> Snapshot:
    counters = {key: Counter(value, NOW - ago) for key, value in (was or {}).items()}
    baseline = Baseline(boot_id=boot, counters=counters, events=events)
    return Snapshot(
        node="n1",
        taken_at=NOW,
        boot_id="b",
        uptime_s=600.0,
        baseline=None if was is None and not events else baseline,
        **({"hcas": hcas} | facts),
    )


def eight(**changed: dict[str, Any]) -> list[Hca]:
    """Eight good devices, some of them changed: eight(m3={"state": "DOWN"})."""
    return [hca(n, **changed.get(f"m{n}", {})) for n in range(8)]


def told(findings: Any) -> list[tuple[str, str]]:
    return [(f.severity.value, f.subject) for f in findings]


# devices

EIGHT = DeviceLimits(hcas=8)


def test_eight_of_eight_devices_pass() -> None:
    assert told(ib_devices(node(*eight()), EIGHT)) == []


def test_no_device_at_all_fails() -> None:
    assert told(ib_devices(node(), EIGHT)) == [("fail", "node")]


def test_a_device_that_was_here_before_is_named() -> None:
    was = {f"mlx5_{n}/1|link_downed": 0 for n in range(8)}
    (finding,) = ib_devices(node(*eight()[:7], was=was), EIGHT)
    assert (finding.subject, finding.measured, finding.expected) == ("mlx5_7", 7, 8)


def test_a_named_device_that_is_missing_fails_though_there_are_enough() -> None:
    limits = DeviceLimits(hcas=8, names=("mlx5_0", "mlx5_9"))
    assert told(ib_devices(node(*eight()), limits)) == [("fail", "mlx5_9")]


def test_a_lost_spare_device_is_only_a_warning() -> None:
    was = {f"mlx5_{n}/1|link_downed": 0 for n in range(9)}
    assert told(ib_devices(node(*eight(), was=was), EIGHT)) == [("warn", "mlx5_8")]


def test_devices_that_only_changed_their_names_are_not_lost() -> None:
    was = {f"ibp{n}s0/1|link_downed": 0 for n in range(8)}
    assert told(ib_devices(node(*eight(), was=was), EIGHT)) == []


def test_virtual_devices_do_not_stand_in_for_real_ones() -> None:
    virtual = [hca(n, virtual=True) for n in range(8, 16)]
    assert told(ib_devices(node(*eight()[:7], *virtual), EIGHT)) == [("fail", "node")]


def test_a_card_on_the_bus_without_a_device_is_named() -> None:
    card = PciDevice("0000:5e:00.0", "nic", "0x15b3", "0x1021", config_dead=True)
    (finding,) = ib_devices(node(*eight()[:7], pci=(card,)), EIGHT)
    assert "0000:5e:00.0 (does not answer)" in finding.message


def test_a_reading_that_hangs_names_the_device() -> None:
    problem = Problem(
        "hung",
        "read on /sys/class/infiniband/mlx5_3/ports/1 has given no answer for 2.0 s",
        call="read",
        subject="/sys/class/infiniband/mlx5_3/ports/1",
    )
    seen = node(hcas=None, problems={"hcas": problem})
    assert told(ib_devices(seen, EIGHT)) == [("fail", "mlx5_3")]


@pytest.mark.parametrize("kind", ["slow", "absent", "denied", "failed"])
def test_a_reading_that_failed_otherwise_is_unmeasured(kind: str) -> None:
    seen = node(hcas=None, problems={"hcas": Problem(kind, "why")})
    with pytest.raises(Unmeasured, match="why"):
        list(ib_devices(seen, EIGHT))


# ports

ALL = PortLimits(active=8, rate_gb_s=400, link_layer="InfiniBand")


@pytest.mark.parametrize(
    ("hcas", "expected"),
    [
        (eight(), []),
        ([*eight(), hca(8, **POLLING), hca(9, **POLLING)], []),
        (eight(m3=POLLING), [("fail", "mlx5_3/1")]),
        (eight(m3={"rate_gb_s": 200.0}), [("fail", "mlx5_3/1")]),
        (eight(m3={"rate_gb_s": None}), [("fail", "mlx5_3/1")]),
        (eight(m3={"state": None, "phys_state": None}), [("fail", "mlx5_3/1")]),
        (eight(m3={"link_layer": "Ethernet"}), [("fail", "mlx5_3/1")]),
        (eight(m3=NO_SM), [("fail", "fabric")]),
        (eight(**{f"m{n}": NO_SM for n in range(8)}), [("fail", "fabric")]),
        (eight(m3=NO_SM, m5=POLLING), [("fail", "fabric"), ("fail", "mlx5_5/1")]),
        (eight()[:7], [("fail", "node")]),
        ([], [("fail", "node")]),
        # An unused port of another card, never up, is not the one that is missing.
        ([*eight(m3=POLLING), hca(8, board_id="MT_9", **POLLING)], [("fail", "mlx5_3/1")]),
        (
            [*eight(m3={**POLLING, "counters": {"link_downed": 2}}), hca(8, **POLLING)],
            [("fail", "mlx5_3/1")],
        ),
        # Nothing tells these two apart: one finding that names both.
        ([*eight(m3=POLLING), hca(8, **POLLING)], [("fail", "node")]),
    ],
)
def test_ports(hcas: list[Hca], expected: list[tuple[str, str]]) -> None:
    assert told(ib_ports(node(*hcas), ALL)) == expected


def test_a_port_that_just_went_down_is_the_culprit_and_not_the_slow_storage_port() -> None:
    down = {**POLLING, "counters": {"link_downed": 1}}
    storage = hca(8, rate_gb_s=200.0)
    seen = node(*eight(m3=down), storage, was={"mlx5_3/1|link_downed": 0})
    (finding,) = ib_ports(seen, ALL)
    assert finding.subject == "mlx5_3/1"
    assert "7 of 8 ports are good" in finding.message
    assert "mlx5_8/1 (ACTIVE, LinkUp)" in finding.message


def test_a_remembered_flap_points_at_the_culprit() -> None:
    event = Event("link-downed", NOW - 7200, "b", subject="mlx5_8/1")
    seen = node(*eight(m3=POLLING), hca(8, **POLLING), events=(event,))
    assert told(ib_ports(seen, ALL)) == [("fail", "mlx5_8/1")]


def test_without_a_subnet_manager_the_fabric_is_named_and_nothing_is_to_be_repaired() -> None:
    (finding,) = ib_ports(node(*eight(m3=NO_SM)), ALL)
    assert "fabric, not this node" in finding.message
    assert "mlx5_3/1" in finding.message
    assert finding.action == "none"


def test_ambiguous_ports_are_all_named() -> None:
    (finding,) = ib_ports(node(*eight(m3=POLLING), hca(8, **POLLING)), ALL)
    assert "mlx5_3/1 (DOWN, Polling)" in finding.message
    assert "mlx5_8/1 (DOWN, Polling)" in finding.message
    assert (finding.measured, finding.expected) == (7, 8)


NAMED = PortLimits(active=2, rate_gb_s=400, link_layer="InfiniBand", names=("mlx5_0", "mlx5_1/1"))


@pytest.mark.parametrize(
    ("hcas", "expected"),
    [
        (eight(), []),
        (eight(m5=POLLING), []),
        (eight(m1=POLLING), [("fail", "mlx5_1/1")]),
        (eight(m0={"rate_gb_s": 100.0}), [("fail", "mlx5_0/1")]),
        (eight()[:1], [("fail", "mlx5_1/1")]),
        ([], [("fail", "mlx5_0"), ("fail", "mlx5_1/1")]),
    ],
)
def test_named_ports(hcas: list[Hca], expected: list[tuple[str, str]]) -> None:
    assert told(ib_ports(node(*hcas), NAMED)) == expected


def test_roce_ports_have_no_subnet_manager_to_miss() -> None:
    limits = PortLimits(active=1, rate_gb_s=400, link_layer="Ethernet")
    roce = {"link_layer": "Ethernet", "netdev": "eth4"}
    assert told(ib_ports(node(hca(0, **roce)), limits)) == []
    (finding,) = ib_ports(node(hca(0, **roce, state="INIT")), limits)
    assert finding.subject == "mlx5_0/1"
    assert "eth4" in finding.message


def test_speeds_that_an_old_kernel_cannot_name_are_unmeasured() -> None:
    with pytest.raises(Unmeasured, match="SDR"):
        list(ib_ports(node(*(hca(n, rate_gb_s=10.0) for n in range(8))), ALL))


def test_one_port_that_really_runs_at_sdr_fails() -> None:
    assert told(ib_ports(node(*eight(m3={"rate_gb_s": 10.0})), ALL)) == [("fail", "mlx5_3/1")]


def test_limits_that_ask_for_more_ports_than_they_name_are_refused() -> None:
    declared = Check("ib-ports", ib_ports, (), (), PortLimits, "", None, "")
    figures = {"active": 3, "rate_gb_s": 400, "link_layer": "InfiniBand", "names": ["mlx5_0"]}
    with pytest.raises(msgspec.ValidationError, match="names lists only 1"):
        limits_of(declared, figures)


# firmware


def test_firmware_is_compared_within_one_board() -> None:
    seen = node(hca(0), hca(1), hca(2, firmware="28.41"), hca(3, board_id="MT_2", firmware="20.1"))
    (finding,) = ib_firmware(seen, FirmwareLimits())
    assert (finding.severity, finding.subject) == ("warn", "mlx5_2")
    assert (finding.measured, finding.expected) == ("28.41", "28.39")


def test_firmware_that_the_site_does_not_allow_warns_even_where_it_is_uniform() -> None:
    limits = FirmwareLimits(versions={"MT_1": ("28.40", "28.41")})
    assert told(ib_firmware(node(hca(0), hca(1, firmware="28.41")), limits)) == [("warn", "mlx5_0")]


def test_firmware_nobody_tells_is_unmeasured() -> None:
    with pytest.raises(Unmeasured):
        list(ib_firmware(node(hca(0, firmware=None)), FirmwareLimits()))


# errors


def grown(counter: str, was: int | None, now: int, ago: float = HOUR, boot: str = "b") -> Snapshot:
    before = {} if was is None else {f"mlx5_0/1|{counter}": was}
    return node(hca(0, counters={counter: now}), was=before, ago=ago, boot=boot)


@pytest.mark.parametrize(
    ("counter", "was", "now", "words"),
    [
        ("symbol_error", 5, 5, None),
        ("symbol_error", 60_000, 60_000, None),
        ("symbol_error", 0, 120, None),
        ("symbol_error", 0, 121, "grew by 121"),
        ("symbol_error", 65_535, 65_535, "stands at its maximum 65535 (16 bits)"),
        ("symbol_error", None, 65_535, "stands at its maximum"),
        ("symbol_error", 100, 65_535, "grew by at least 65435"),
        ("symbol_error", 70_000, 70_001, None),
        ("symbol_error", 70_000, 71_000, "grew by 1000"),
        ("symbol_error", 50_000, 7, None),
        ("symbol_error", 50_000, 700, "grew by 700"),
        ("symbol_error", None, 900, None),
        ("link_error_recovery", 0, 4, "grew by 4"),
        ("link_error_recovery", 255, 255, "8 bits"),
        ("local_link_integrity_errors", 15, 15, "4 bits"),
        ("local_link_integrity_errors", 14, 14, None),
        ("excessive_buffer_overrun_errors", 0, 15, "at least 15"),
        ("port_rcv_errors", 0, 61, "grew by 61"),
    ],
)
def test_error_counters(counter: str, was: int | None, now: int, words: str | None) -> None:
    findings = list(ib_errors(grown(counter, was, now), ErrorLimits()))
    if words is None:
        assert findings == []
    else:
        (finding,) = findings
        assert finding.severity == "warn"
        assert words in finding.message


def test_counters_that_a_card_keeps_over_a_reboot_are_not_new() -> None:
    assert told(ib_errors(grown("symbol_error", 60_000, 60_001, boot="old"), ErrorLimits())) == []


def test_ethernet_ports_have_no_infiniband_errors() -> None:
    with pytest.raises(NotApplicable):
        list(ib_errors(node(hca(0, link_layer="Ethernet")), ErrorLimits()))


def test_counters_that_all_refuse_are_unmeasured() -> None:
    seen = node(hca(0, counters={}, unreadable=("symbol_error", "port_rcv_errors")))
    with pytest.raises(Unmeasured, match="mlx5_0/1"):
        list(ib_errors(seen, ErrorLimits()))


def test_a_counter_that_refuses_beside_others_is_told() -> None:
    seen = node(hca(0, unreadable=("symbol_error",)))
    assert told(ib_errors(seen, ErrorLimits())) == [("info", "mlx5_0/1")]


def test_a_node_without_ports_has_no_errors_to_judge() -> None:
    with pytest.raises(NotApplicable):
        list(ib_errors(node(), ErrorLimits()))


# flapping


def downs(*hours_ago: float, count: int = 1, subject: str = "mlx5_0/1") -> tuple[Event, ...]:
    return tuple(
        Event("link-downed", NOW - h * HOUR, "b", subject=subject, count=count) for h in hours_ago
    )


def flapping(
    now: int, events: tuple[Event, ...] = (), was: int | None = 10, boot: str = "b"
) -> Snapshot:
    before = {} if was is None else {"mlx5_0/1|link_downed": was}
    return node(hca(0, counters={"link_downed": now}), was=before, events=events, boot=boot)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (flapping(10), []),
        (flapping(11), ["warn"]),
        (flapping(15), ["fail"]),
        (flapping(11, downs(1, 2, 3)), ["warn"]),
        (flapping(11, downs(1, 2, 3, 4)), ["fail"]),
        (flapping(10, downs(1, 2, 3, 4, 5)), ["fail"]),
        (flapping(10, downs(1, 2, 3, 4)), []),
        (flapping(11, downs(25, 26, 27, 28, 29)), ["warn"]),
        (flapping(11, downs(1, 2, 3, 4, subject="mlx5_1/1")), ["warn"]),
        (flapping(10, downs(1, count=5)), ["fail"]),
        (flapping(3, was=200), ["warn"]),
        (flapping(11, was=None), []),
        (flapping(12, boot="before"), []),
        (flapping(255, was=255), ["warn"]),
        (flapping(255, was=10), ["fail"]),
    ],
)
def test_flapping(seen: Snapshot, expected: list[str]) -> None:
    assert [f.severity for f in ib_flap(seen, FlapLimits())] == expected


def test_a_link_whose_counter_is_not_read_is_unmeasured() -> None:
    with pytest.raises(Unmeasured):
        list(ib_flap(node(hca(0, counters={}, unreadable=("link_downed",))), FlapLimits()))


# transport errors


@pytest.mark.parametrize(
    ("counter", "now", "expected"),
    [
        ("local_ack_timeout_err", 600, []),
        ("local_ack_timeout_err", 601, ["warn"]),
        ("packet_seq_err", 60_001, ["warn"]),
        ("out_of_sequence", 59_000, []),
        ("rnr_nak_retry_err", 10**9, ["warn"]),
    ],
)
def test_transport_errors_warn_by_rate(counter: str, now: int, expected: list[str]) -> None:
    seen = node(hca(0, hw_counters={counter: now}), was={f"mlx5_0/1|{counter}": 0})
    assert [f.severity for f in ib_hw_errors(seen, HwLimits())] == expected


def test_cards_without_hw_counters_are_not_applicable() -> None:
    with pytest.raises(NotApplicable):
        list(ib_hw_errors(node(hca(0)), HwLimits()))


def test_cards_that_refuse_hw_counters_are_unmeasured() -> None:
    seen = node(hca(0, unreadable=("rnr_nak_retry_err",)))
    with pytest.raises(Unmeasured):
        list(ib_hw_errors(seen, HwLimits()))
