"""Nodes, reports and records as short as tests want them."""

from typing import Any

from slurm_integration.node_state import NodeState
from slurm_integration.sweep.model import Answer, NodeResult

REASON = "flightcheck: no-go gpu-count: 7 of 8 GPUs visible [job 11]"
NOW = 1_000_000.0


def drained(
    name: str = "node01", at: float = NOW, reason: str = REASON, base: str = "IDLE", **more: Any
) -> NodeState:
    flags = ("DRAIN", *more.pop("flags", ()))
    return NodeState(
        name, base, flags, reason=reason, reason_user="root", reason_time=int(at), **more
    )


def serving(name: str = "node01") -> NodeState:
    return NodeState(name, "IDLE")


def finding(action: str = "reboot", severity: str = "fail") -> dict[str, Any]:
    return {
        "severity": severity, "subject": "node", "message": "7 of 8 GPUs visible", "measured": 7,
        "expected": 8, "action": action, "source": None,
    }  # fmt: skip


def outcome(check: str, ending: str = "passed", *findings: dict, reason: str | None = None) -> dict:
    return {"check": check, "outcome": ending, "reason": reason, "findings": list(findings)}


def looked(
    verdict: str = "go", *outcomes: dict, node: str = "node01", detail: str = ""
) -> NodeResult:
    report = {
        "verdict": verdict, "node": node, "profile": "h100-sxm", "stage": "sweep",
        "duration_s": 0.1, "notes": [],
        "outcomes": list(outcomes) or [outcome("gpu-count"), outcome("clock")],
    }  # fmt: skip
    return NodeResult(node, "ssh", Answer.REPORTED, report, detail=detail)


def sick(node: str = "node01", action: str = "reboot") -> NodeResult:
    return looked("no-go", outcome("gpu-count", "found", finding(action)), node=node)


def silent(node: str = "node01", answer: Answer = Answer.UNREACHABLE) -> NodeResult:
    return NodeResult(node, "ssh", answer, detail="no route to host")
