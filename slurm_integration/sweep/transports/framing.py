"""What runs on the node, and how its answer is told from everything else a host may print.

A constant script, started as `/bin/sh -c SCRIPT sh PROGRAM …`, frames flightcheck's JSON between
marks that carry the sweep's nonce: banners of login shells, module systems and epilogues of other
programs stay outside. Marks hold no newline, because srun cuts long lines into labelled pieces.
"""

import re
import shlex
from functools import lru_cache
from typing import Any

import msgspec

from healthcheck import __version__
from healthcheck.model import Action, Ending, Severity, Verdict
from healthcheck.report.clean import clean
from healthcheck.report.facts import Facts
from healthcheck.strict_json import decode_json
from slurm_integration.sweep.model import Answer, NodeResult
from slurm_integration.sweep.transports.base import Arrival, Errand, Target, no_answer

SCRIPT = """\
n=$1 t=$2 m=$3 p=$4; shift 4
command -v "$p" >/dev/null 2>&1 || p=/opt/flightcheck/bin/flightcheck
{ printf '<%s begin %s>' "$n" "${SLURMD_NODENAME-}"
if command -v "$p" >/dev/null 2>&1; then
timeout -k 5 "$t" "$p" "$@" </dev/null; e=$?
if [ $e = 64 ]; then printf '<%s version %s>' "$n" "$("$p" --version 2>&1 | head -c 99)"; fi
else e=127; fi
printf '<%s end %s>\\n' "$n" $e; } | head -c "$m"
"""
"""Arguments: nonce, seconds, bytes, program, its arguments. `head` bounds at the source."""

_TIMED_OUT = (124, 137)
_USAGE = 64
_ABSENT = (126, 127)


def remote_argv(errand: Errand, stage: str) -> list[str]:
    """The command line for a node."""
    seconds = str(max(1, round(errand.timeout_s)))
    size = str(errand.max_output + 1)
    head = ["/bin/sh", "-c", SCRIPT, "sh", errand.nonce, seconds, size, errand.program]
    return [*head, *errand.arguments(stage)]


def remote_line(errand: Errand, stage: str) -> str:
    """The same as one quoted line, for a login shell."""
    return shlex.join(remote_argv(errand, stage))


class _Finding(msgspec.Struct, frozen=True):
    severity: Severity
    subject: str
    message: str
    action: Action
    measured: str | float | bool | None = None
    expected: str | float | bool | None = None
    source: str | None = None


class _Outcome(msgspec.Struct, frozen=True):
    check: str
    outcome: Ending
    findings: list[_Finding]
    reason: str | None = None


class _Report(msgspec.Struct, frozen=True):
    """The form of `flightcheck check --json --facts --snapshot`."""

    verdict: Verdict
    node: str
    profile: str
    stage: str
    duration_s: float
    notes: list[str]
    outcomes: list[_Outcome]
    version: str
    facts: Facts
    snapshot: msgspec.Raw = msgspec.Raw()


def read_answer(
    output: bytes, errors: bytes, errand: Errand, target: Target, transport: str, seconds: float
) -> Arrival:
    """What a node's output means. Pure; never raises for anything a host can send."""

    def not_a_report(answer: Answer, detail: str) -> Arrival:
        return no_answer(target, transport, answer, detail, seconds)

    if len(output) > errand.max_output:
        limit = f"{errand.max_output >> 20} MiB"
        return not_a_report(Answer.TOO_MUCH_OUTPUT, f"sent more than {limit}, then cut off")
    nonce = errand.nonce.encode()
    begin = re.search(rb"<" + nonce + rb" begin ([^ <>]*)>", output)
    if begin is None:
        return not_a_report(
            Answer.GARBAGE,
            f"expected flightcheck's report, found {_shown(output) or _shown(errors) or 'nothing'}",
        )
    end = re.compile(rb"<" + nonce + rb" end (\d{1,3})>").search(output, begin.end())
    if end is None:
        return not_a_report(
            Answer.GARBAGE, f"the answer breaks off after {len(output) - begin.end()} bytes"
        )
    code, body = int(end[1]), output[begin.end() : end.start()]
    if code in _ABSENT and not body.strip():
        return not_a_report(
            Answer.NOT_INSTALLED,
            f"no {errand.program} on the PATH there and none in /opt/flightcheck/bin",
        )
    if code in _TIMED_OUT:
        return not_a_report(
            Answer.TIMED_OUT, f"flightcheck did not end within {errand.timeout_s:g} s there"
        )
    if code == _USAGE:
        return not_a_report(*_usage(body, errors, nonce))
    return _report(body, errors, code, target, transport, seconds)


def _usage(body: bytes, errors: bytes, nonce: bytes) -> tuple[Answer, str]:
    """Exit code 64: an older flightcheck, or a configuration or option refused by ours."""
    told = re.search(rb"<" + nonce + rb" version flightcheck, version ([^ <>]{1,40})\s*>", body)
    version = told[1].decode("ascii", "replace") if told else ""
    said = _shown(errors.rpartition(b"Error: ")[2]) or "nothing"
    if version == __version__:
        return Answer.GARBAGE, f"flightcheck refused its arguments there: {said}"
    found = version or "an unknown version"
    return Answer.OTHER_VERSION, f"expected flightcheck {__version__}, found {found}: {said}"


def _report(
    body: bytes, errors: bytes, code: int, target: Target, transport: str, seconds: float
) -> Arrival:
    try:
        report = decode_json(body, _Report)
    except msgspec.MsgspecError as error:
        version = _version_of(body)
        if version not in (None, __version__):
            return no_answer(
                target, transport, Answer.OTHER_VERSION,
                f"expected flightcheck {__version__}, found {version}", seconds,
            )  # fmt: skip
        shown = _shown(body) or _shown(errors[-400:]) or "nothing"
        return no_answer(
            target, transport, Answer.GARBAGE,
            f"expected flightcheck's report, found {shown} (exit code {code}; {error})", seconds,
        )  # fmt: skip
    if not _same_release(report.version):
        return no_answer(
            target, transport, Answer.OTHER_VERSION,
            f"expected flightcheck {__version__}, found {clean(report.version, 40)}; "
            f"it says {report.verdict.value}", seconds,
        )  # fmt: skip
    data = _plain(report)
    result = NodeResult(
        target.node,
        transport,
        Answer.REPORTED,
        report=data,
        facts=msgspec.to_builtins(report.facts),
        # srun's answers carry the name that slurmd itself has.
        detail="" if transport == "srun" else _other_name(target, str(data["node"])),
        seconds=round(seconds, 3),
        state=target.state,
        stage=target.stage,
    )
    return Arrival(result, bytes(report.snapshot) or None)


def _plain(report: _Report) -> dict[str, Any]:
    """The report as plain data in the documented form, its texts safe for a terminal (law 8)."""
    return {
        "verdict": report.verdict.value,
        "node": clean(report.node, 255),
        "profile": clean(report.profile, 100),
        "stage": clean(report.stage, 20),
        "duration_s": report.duration_s,
        "notes": [clean(note) for note in report.notes],
        "outcomes": [
            _plain_outcome(outcome.check, outcome.outcome, outcome.reason)
            if not outcome.findings
            else {
                **_plain_outcome(outcome.check, outcome.outcome, outcome.reason),
                "findings": [_plain_finding(finding) for finding in outcome.findings],
            }
            for outcome in report.outcomes
        ],
    }


@lru_cache(maxsize=1024)
def _plain_outcome(check: str, outcome: Ending, reason: str | None) -> dict[str, Any]:
    """An outcome without findings. Thousands of nodes pass the same checks and share one object:
    60 checks of 10,000 nodes would take 300 MB. Nobody changes a report.
    """
    return {
        "check": clean(check, 100),
        "outcome": outcome.value,
        "reason": None if reason is None else clean(reason),
        "findings": [],
    }


def _plain_finding(finding: _Finding) -> dict[str, Any]:
    def safe(value: object) -> object:
        return clean(value) if isinstance(value, str) else value

    return {
        "severity": finding.severity.value,
        "subject": clean(finding.subject, 200),
        "message": clean(finding.message),
        "measured": safe(finding.measured),
        "expected": safe(finding.expected),
        "action": finding.action.value,
        "source": safe(finding.source),
    }


def _other_name(target: Target, told: str) -> str:
    """A note where the host calls itself something else: an address may lead to a wrong host."""
    asked = {name.partition(".")[0].lower() for name in (target.node, target.host)}
    return "" if told.partition(".")[0].lower() in asked else f"calls itself {told}"


def _version_of(body: bytes) -> str | None:
    try:
        told = decode_json(body)
    except msgspec.MsgspecError:
        return None
    version = told.get("version") if isinstance(told, dict) and "verdict" in told else None
    return clean(version, 40) if isinstance(version, str) else None


def _same_release(version: str) -> bool:
    """Releases that differ in the third number alone speak the same form."""
    return version.split(".")[:2] == __version__.split(".")[:2]


def _shown(data: bytes) -> str:
    """How it begins, safe to print; "" for nothing."""
    text = clean(data[:200].decode("utf-8", "replace"), 80)
    return repr(text) if text else ""
