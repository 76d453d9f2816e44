"""The four forms of a report."""

import json

import jsonschema
import pytest

from healthcheck.model import (
    Action,
    Ending,
    Outcome,
    Report,
    Verdict,
    fail,
    info,
    verdict_of,
    warn,
)
from healthcheck.report import schema
from healthcheck.report.clean import clean
from healthcheck.report.json import to_json
from healthcheck.report.nagios import to_nagios
from healthcheck.report.prometheus import to_prometheus
from healthcheck.report.text import to_text

OUTCOMES = (
    Outcome("gpu-count", Ending.FOUND, (
        fail("node", "7 of 8 GPUs visible", measured=7, expected=8, action=Action.REBOOT,
             source="datasheet"),)),
    Outcome("gpu-temperature", Ending.FOUND, (warn("0000:1b:00.0", "81 °C"), info("x", "told"))),
    Outcome("pcie-aer", Ending.UNMEASURED, reason="no aer_dev_fatal here"),
    Outcome("xid", Ending.PASSED),
    Outcome("mounts", Ending.NOT_APPLICABLE, reason="profile expects none"),
)  # fmt: skip


def report(*outcomes, notes=()):
    return Report(verdict_of(outcomes), "n1", "h100-sxm", "prolog", 0.0712, outcomes, notes)


FULL = report(*OUTCOMES, notes=("a note",))


def test_the_schema_file_is_the_types_schema():
    with open(schema.PATH, encoding="utf-8") as file:
        assert file.read() == schema.text(), "run `make schema`"


@pytest.mark.parametrize("one", [FULL, report()])
def test_json_keeps_to_the_schema(one):
    jsonschema.validate(json.loads(to_json(one)), schema.schema())


def test_json_has_the_documented_form():
    data = json.loads(to_json(FULL))
    assert data["verdict"] == "no-go"
    assert data["outcomes"][0] == {
        "check": "gpu-count",
        "outcome": "found",
        "reason": None,
        "findings": [
            {
                "severity": "fail",
                "subject": "node",
                "message": "7 of 8 GPUs visible",
                "measured": 7,
                "expected": 8,
                "action": "reboot",
                "source": "datasheet",
            }
        ],
    }


def test_text_shows_the_worst_first_with_remedy_source_and_what_was_not_judged():
    lines = to_text(FULL).splitlines()
    assert "n1: NO-GO" in lines[0]
    assert "note  a note" in lines[1]
    order = [i for word in ("FAIL", "WARN", "info") for i, x in enumerate(lines) if word in x]
    assert order == sorted(order)
    text = "\n".join(lines)
    assert "reboot the node" in text
    assert "source: datasheet" in text
    assert "unmeasured pcie-aer: no aer_dev_fatal here" in text
    assert "\x1b" not in text
    assert "xid" not in text
    assert "ok    xid" in to_text(FULL, verbose=True)
    assert "\x1b[" in to_text(FULL, colour=True)


def test_nagios_says_the_worst_and_counts():
    first, *rest = to_nagios(FULL).splitlines()
    assert first.startswith("FLIGHTCHECK CRITICAL - no-go: gpu-count: node: 7 of 8 GPUs visible")
    assert "| duration=0.071s fail=1 warn=1 unmeasured=1" in first
    assert len(rest) == 2


def test_nagios_bars_in_messages_do_not_begin_performance_data():
    text = to_nagios(report(Outcome("c", Ending.FOUND, (fail("a|b", "c|d"),))))
    assert text.splitlines()[0].count("|") == 1


def test_nagios_of_a_blind_node_says_why():
    text = to_nagios(report(Outcome("xid", Ending.UNMEASURED, reason="no permission")))
    assert text.startswith("FLIGHTCHECK UNKNOWN - unknown: xid unmeasured: no permission")


def test_prometheus_has_a_series_for_every_state():
    text = to_prometheus(FULL)
    assert 'flightcheck_verdict{profile="h100-sxm",verdict="no-go"} 1.0' in text
    assert 'flightcheck_verdict{profile="h100-sxm",verdict="go"} 0.0' in text
    assert 'flightcheck_check_outcome{check="pcie-aer",outcome="unmeasured"} 1.0' in text
    assert 'action="reboot",check="gpu-count",severity="fail",subject="node"} 1.0' in text


EVIL = "a\x1b[31mred\x1b]0;title\x07\r\nb\u202ec\x9b2J\x00"


@pytest.mark.parametrize("write", [to_text, to_nagios, to_prometheus])
def test_no_form_passes_escape_sequences_on(write):
    text = write(report(Outcome("c", Ending.FOUND, (fail(EVIL, EVIL, action=Action.REPLACE),))))
    assert not set(text) & {"\x1b", "\r", "\x00", "\x9b", "\u202e", "\x07"}
    assert "31m" not in text


def test_clean_cuts_long_text_and_folds_lines():
    assert clean("a\nb\t c") == "a b c"
    assert clean("x" * 5000, 10) == "x" * 9 + "…"


def test_every_verdict_has_its_words():
    for verdict in Verdict:
        one = Report(verdict, "n1", "p", "prolog", 0.0, ())
        assert verdict.value.upper() in to_text(one)
        assert verdict.value in to_nagios(one)
