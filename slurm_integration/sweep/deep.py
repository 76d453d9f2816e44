"""`sweep --deep`: the all_reduce test over idle nodes, some at a time, as exclusive Slurm jobs.

Each job first tests its nodes together; where that fails or is slow, in pairs and then each suspect
with a node that is proven good (slurm_integration.allreduce_nodes). Only idle nodes whose checks
found nothing: a sick one would only fail again, and busy ones belong to somebody.
"""

import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence

import msgspec

from healthcheck.model import Severity, Verdict
from healthcheck.report.clean import clean
from healthcheck.strict_json import decode_json
from slurm_integration.allreduce_nodes.admin import FOREIGN, srun_argv
from slurm_integration.allreduce_nodes.model import RunReport
from slurm_integration.allreduce_nodes.step import SECRET
from slurm_integration.node_state import NodeState
from slurm_integration.sweep.compare.outliers import measure
from slurm_integration.sweep.model import Answer, Comparison, FleetFinding, NodeResult
from slurm_integration.sweep.nodeset import fold
from slurm_integration.sweep.slurm import Known
from slurm_integration.sweep.transports.process import Ended, follow

KIND = "allreduce"
SUBJECT = "all_reduce across nodes"
FIGURE = "allreduce_gb_s"
LIMIT_S = 300.0
"""For the nodes of one job, from their start."""
QUEUE_S = 60.0
MAX_OUTPUT = 8 << 20


class Left(msgspec.Struct, frozen=True):
    """A node that is not tested, and why."""

    node: str
    why: str


class _Alone(msgspec.Struct, frozen=True):
    """The part of `flightcheck allreduce --json` on one node that counts here."""

    verdict: Verdict


class Flown(msgspec.Struct, frozen=True):
    """What came of one job: a report, the verdict of a node that was tested by itself, or in a
    line why there is neither.
    """

    nodes: tuple[str, ...]
    report: RunReport | None
    trouble: str = ""
    alone: str = ""


def choose(results: Sequence[NodeResult], known: Known) -> tuple[list[str], list[Left]]:
    """The nodes to test, and the others with the reason. Pure."""
    ready, left = [], []
    for result in results:
        why = _not_now(result, known.nodes.get(result.node))
        if why:
            left.append(Left(result.node, why))
        else:
            ready.append(result.node)
    return ready, left


def _not_now(result: NodeResult, state: NodeState | None) -> str:
    if state is None:
        return "Slurm does not know it"
    if state.held:
        return "out of service"
    if state.base != "IDLE" or {"COMPLETING", "RESERVED", "MAINTENANCE"} & set(state.flags):
        return f"not idle ({state.base.lower()})"
    if result.answer is not Answer.REPORTED:
        return "it gave no report"
    if result.verdict not in (Verdict.GO, Verdict.DEGRADED):
        return f"{result.verdict.value if result.verdict else 'unknown'}: mend that first"
    return ""


def batches(nodes: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """At most `most` nodes in each, alike in size; one alone only where there is no other. Pure."""
    count = -(-len(nodes) // most)
    if len(nodes) > 1:
        count = min(count, len(nodes) // 2) or 1
    return [tuple(nodes[number::count]) for number in range(count)] if nodes else []


def fly(nodes: Sequence[str], gpus: int, program: str, words: Sequence[str], srun: str) -> Flown:
    """Test these nodes in one job. Ctrl-C ends the job and comes through as KeyboardInterrupt."""
    told = [program, "allreduce", "--json", f"--timeout={LIMIT_S:g}", *words]
    argv = srun_argv(nodes, gpus, told, (), LIMIT_S, inside=False)
    output, errors = bytearray(), bytearray()

    def take(chunk: bytes) -> bool:
        output.extend(chunk)
        return len(output) <= MAX_OUTPUT

    def complain(chunk: bytes) -> None:
        errors.extend(chunk[: 65536 - len(errors)])

    until = time.monotonic() + LIMIT_S + QUEUE_S
    try:
        follow(
            [srun, *argv[1:]], _environment(os.environ), until, threading.Event(), take, complain
        )
    except Ended as ended:
        return Flown(tuple(nodes), None, f"the test was ended: {ended.why}")
    except OSError as error:
        return Flown(tuple(nodes), None, f"{srun}: {error.strerror}")
    return read(nodes, bytes(output), errors.decode("utf-8", "replace"))


def read(nodes: Sequence[str], output: bytes, errors: str) -> Flown:
    """The report out of what the job wrote. Pure."""
    for line in reversed(output.splitlines()):
        try:
            if len(nodes) == 1:
                verdict = decode_json(line, _Alone).verdict.value
                return Flown(tuple(nodes), None, alone=verdict)
            return Flown(tuple(nodes), decode_json(line, RunReport))
        except msgspec.MsgspecError:
            continue
    words = [line for line in errors.splitlines() if line.strip()]
    return Flown(tuple(nodes), None, clean(words[-1])[:200] if words else "it told nothing")


def judge(flown: Sequence[Flown], left: Sequence[Left]) -> tuple[Comparison, list[str]]:
    """Findings about nodes and links, every node's best figure, and notes. Pure."""
    findings: list[FleetFinding] = []
    values: dict[str, float] = {}
    notes: list[str] = []
    for one in flown:
        if one.alone:
            notes.append(f"deep: {fold(one.nodes)} was tested by itself: {one.alone}")
            if one.alone == Verdict.NO_GO.value:
                told = "the all_reduce test on this node by itself is no-go"
                findings.append(
                    FleetFinding(KIND, Severity.FAIL, SUBJECT, fold(one.nodes), one.nodes, told)
                )
            continue
        if one.report is None:
            notes.append(f"deep: {fold(one.nodes)} not tested: {one.trouble}")
            continue
        findings += _findings(one, one.report)
        for test in one.report.tests:
            if test.end == "ok" and test.busbw_gb_s is not None:
                for node in test.nodes:
                    values[node] = max(values.get(node, 0.0), test.busbw_gb_s)
        notes += [f"deep: {clean(note)}" for note in one.report.conclusion.notes]
    for why in dict.fromkeys(rest.why for rest in left):
        nodes = [rest.node for rest in left if rest.why == why]
        notes.append(f"deep: {fold(nodes)} not tested: {why}")
    metrics = (measure("all tested nodes", FIGURE, values),) if values else ()
    return Comparison(tuple(findings), metrics), notes


def _findings(one: Flown, report: RunReport) -> list[FleetFinding]:
    found = [
        FleetFinding(
            KIND, Severity.FAIL if fault.kind == "node" else Severity.WARN, SUBJECT,
            fold(one.nodes), fault.nodes or one.nodes, clean(fault.words),
        )
        for fault in report.conclusion.faults
    ]  # fmt: skip
    if report.absent:
        told = "did not show up for the test: see slurmd's log there"
        found.append(
            FleetFinding(KIND, Severity.WARN, SUBJECT, fold(one.nodes), report.absent, told)
        )
    return found


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """What an administrator has set for Slurm at large; nothing of a surrounding job."""
    kept = {name: value for name, value in given.items() if not name.startswith(FOREIGN)}
    kept |= {"SLURM_CONF": given["SLURM_CONF"]} if "SLURM_CONF" in given else {}
    return {**kept, SECRET: secrets.token_hex(16)}
