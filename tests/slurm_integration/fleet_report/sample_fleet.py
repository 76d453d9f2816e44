"""A made-up sweep of any size, always the same one: mostly healthy, with every kind of trouble."""

import random
from typing import Any

from healthcheck.model import Severity
from slurm_integration.sweep.model import (
    Action,
    Answer,
    Comparison,
    FleetFinding,
    Metric,
    NodeResult,
    Sweep,
)

CHECKS = [f"check-{number:02d}" for number in range(45)]
TROUBLES: list[tuple[str, str, str, str, Any, Any, str]] = [
    ("gpu-count", "fail", "node", "7 of 8 GPUs visible (missing {bus})", 7, 8, "reboot"),
    ("gpu-row-remap", "fail", "{bus}", "row remapping has failed", True, False, "replace"),
    ("gpu-ecc", "fail", "{bus}", "2 uncorrectable errors since the baseline", 2, 0, "reset-gpu"),
    ("gpu-temperature", "warn", "{bus}", "84 °C, expected below 80 °C", 84, 80, "none"),
    ("ib-ports", "fail", "mlx5_3/1", "port is DOWN, expected ACTIVE", "DOWN", "ACTIVE", "drain"),
    ("pcie-width", "warn", "{bus}", "x8, expected x16", 8, 16, "drain"),
]
SILENT = [
    (Answer.UNREACHABLE, "no route to host"),
    (Answer.TIMED_OUT, "no answer within 30 s"),
    (Answer.NOT_INSTALLED, "bash: flightcheck: command not found"),
    (Answer.OTHER_VERSION, "found 0.0.9, expected 0.1.0"),
]


def report(verdict: str, found: list[dict] | None = None, blind: str = "") -> dict[str, Any]:
    """A report as `flightcheck check --json` writes it."""
    outcomes = [
        {"check": name, "outcome": "passed", "reason": None, "findings": []} for name in CHECKS
    ]
    for finding in found or []:
        check = finding.pop("check")
        outcomes.append({"check": check, "outcome": "found", "reason": None, "findings": [finding]})
    if blind:
        outcomes.append(
            {"check": "nvlink-links", "outcome": "timed-out", "reason": blind, "findings": []}
        )
    return {
        "verdict": verdict,
        "node": "x",
        "profile": "h100-sxm",
        "stage": "sweep",
        "duration_s": 0.1,
        "notes": [],
        "outcomes": outcomes,
    }


def trouble(number: int, bus: str = "0000:b3:00.0") -> dict[str, Any]:
    """One finding with its check."""
    check, severity, subject, message, measured, expected, action = TROUBLES[number % len(TROUBLES)]
    return {
        "check": check,
        "severity": severity,
        "subject": subject.format(bus=bus),
        "message": message.format(bus=bus),
        "measured": measured,
        "expected": expected,
        "action": action,
        "source": "NVIDIA DGX H100/H200 User Guide",
    }


def result(
    node: str, verdict: str = "go", found: list[dict] | None = None, **more: Any
) -> NodeResult:
    """A node that reported."""
    values = {"state": "IDLE", "seconds": 0.4, "stage": "sweep", **more}
    blind = values.pop("blind", "")
    return NodeResult(node, "ssh", Answer.REPORTED, report(verdict, found, blind), None, **values)


def fleet(nodes: int, *, sick_share: float = 0.04) -> tuple[Sweep, dict[str, str]]:
    """A sweep of node0001 and so on, and the rack of each."""
    dice = random.Random(nodes)
    width = max(4, len(str(nodes)))
    names = [f"node{number:0{width}d}" for number in range(1, nodes + 1)]
    racks = {name: f"rack-{at // 32 + 1:03d}" for at, name in enumerate(names)}
    results = [_node(name, dice, sick_share) for name in names]
    metrics = tuple(_metric(*kind, names, dice) for kind in (
        ("gpu_temperature_c", "°C", 55.0, 2.5), ("nvlink_gb_s", "GB/s", 450.0, 1.5),
        ("gpu_power_w", "W", 118.0, 5.0), ("pcie_replays_per_hour", "/h", 0.4, 0.2),
        ("allreduce_gb_s", "GB/s", 412.0, 3.0),
    ))  # fmt: skip
    findings = (
        FleetFinding(
            "common-cause", Severity.FAIL, "rack-003", "rack-003", tuple(names[64:76]),
            "12 of 32 nodes fail ib-ports alike: look at the leaf switch, not at the nodes",
            12, 0,
        ),
        FleetFinding(
            "drift", Severity.WARN, "VBIOS of H100", "h100-sxm", tuple(names[5:9]),
            "4 nodes differ from the other nodes of their type", "96.00.74", "96.00.89",
        ),
    )  # fmt: skip
    sweep = Sweep(
        started_at=1_790_000_000.0,
        seconds=84.2,
        stage="sweep",
        results=tuple(results),
        comparison=Comparison(findings, metrics),
        actions=(Action("would-drain", tuple(names[:3]), "flightcheck: no-go gpu-count"),),
        notes=("2 nodes are busy and got the cheap checks alone",),
        version="0.1.0",
    )
    return sweep, racks


def _node(name: str, dice: random.Random, share: float) -> NodeResult:
    luck = dice.random()
    seconds = round(dice.uniform(0.2, 1.4), 2)
    if luck >= share:
        return result(name, seconds=seconds)
    if luck < share * 0.15:
        answer, detail = dice.choice(SILENT)
        return NodeResult(name, "ssh", answer, detail=detail, state="DOWN*", seconds=seconds)
    if luck < share * 0.22:
        return result(name, "unknown", seconds=seconds, blind="nvmlDeviceGetNvLinkState hung")
    bus = f"0000:{dice.randrange(256):02x}:00.0"
    found = [trouble(dice.randrange(6), bus) for _ in range(dice.choice([1, 1, 1, 2, 3]))]
    verdict = "no-go" if any(one["severity"] == "fail" for one in found) else "degraded"
    return result(name, verdict, found, seconds=seconds, state="IDLE+DRAIN")


def _metric(name: str, unit: str, middle: float, spread: float, names: list[str], dice) -> Metric:
    values = {node: round(dice.gauss(middle, spread), 3) for node in names}
    for node in names[:: max(1, len(names) // 9)]:
        values[node] = round(middle - spread * dice.uniform(6, 14), 3)
    return Metric(
        name, unit, "h100-sxm", middle, spread * 0.67, middle - 5 * spread, middle + 5 * spread,
        values,
    )  # fmt: skip
