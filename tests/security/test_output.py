"""What reaches a terminal, a page, a reason, a label, a journal or JSON was a user's once."""

import json
import re

import pytest

from healthcheck.model import Action, Ending, Job, Outcome, Report, Verdict, fail
from healthcheck.report.clean import clean
from healthcheck.report.json import to_json
from healthcheck.report.nagios import to_nagios
from healthcheck.report.prometheus import to_prometheus
from healthcheck.report.text import to_text
from slurm_integration.fleet_report.page import render
from slurm_integration.metrics.textfile import Gauge
from slurm_integration.metrics.textfile import render as metrics
from slurm_integration.notify.journal import as_journal, as_syslog, fields_of
from slurm_integration.reason import as_reason, drain_reason
from slurm_integration.sweep.model import Answer, NodeResult, Sweep
from slurm_integration.verdict_file import line

EVIL = (
    "a\x1b[31mred\x1b]0;title\x07\x1b[2J\r\nexport LD_PRELOAD=/x\nb\u202ec\x9b2J\x00\udcff\ud800"
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}\"'`$(id);\\ | \u2028 end"
)
FORBIDDEN = set("\x1b\r\x00\x9b\u202e\x07\u2028\udcff\ud800")


@pytest.fixture
def report() -> Report:
    found = Outcome("gpu-count", Ending.FOUND, (fail(EVIL, EVIL, action=Action.REPLACE),))
    return Report(Verdict.NO_GO, clean(EVIL), "p", "prolog", 0.1, (found,), notes=(EVIL,))


@pytest.mark.parametrize("write", [to_text, to_nagios, to_prometheus, line])
def test_text_for_people_moves_no_cursor_and_can_be_encoded(report, write):
    text = write(report)
    assert not set(text) & FORBIDDEN
    text.encode("utf-8")


def test_json_is_one_document_that_any_reader_takes(report):
    text = to_json(report)
    assert not set(text) & FORBIDDEN
    assert json.loads(text)["verdict"] == "no-go"


@pytest.mark.parametrize("make", [lambda t: as_reason(t, 1), lambda t: drain_reason([(t, t)], 1)])
def test_a_reason_is_one_line_without_quotes(make):
    reason = make(EVIL)
    assert reason.isprintable()
    assert not set(reason) & set("\"'`\\\n")
    assert len(reason.encode()) <= 240


def test_a_journal_entry_has_the_fields_that_we_gave_it_and_no_others(report):
    job = Job(4711, user=EVIL)
    data = as_journal(fields_of(report, "drain", EVIL, job, EVIL)).decode()
    names = [row.partition("=")[0] for row in data.splitlines()]
    assert all(
        re.fullmatch(r"(MESSAGE|PRIORITY|SYSLOG_\w+|FLIGHTCHECK_\w+|SLURM_JOB_\w+)", n)
        for n in names
    )
    assert len(names) == len(set(names))
    assert b"\n" not in as_syslog(fields_of(report, "drain", EVIL, job, EVIL))


def test_a_label_ends_where_it_should():
    text = metrics([Gauge("flightcheck_x", "help", [({"subject": EVIL}, 1.0)])])
    rows = text.splitlines()
    assert len(rows) == 3
    assert re.fullmatch(r'flightcheck_x\{subject="(?:[^"\\\n]|\\.)*"\} 1\.0', rows[2])
    assert not set(text) & (FORBIDDEN - {"\udcff"})


def test_the_fleet_page_shows_it_as_text():
    report = {
        "verdict": "no-go",
        "node": EVIL,
        "profile": EVIL,
        "stage": EVIL,
        "duration_s": 1.0,
        "notes": [EVIL],
        "outcomes": [
            {
                "check": EVIL,
                "outcome": "found",
                "reason": EVIL,
                "findings": [
                    {
                        "severity": "fail",
                        "subject": EVIL,
                        "message": EVIL,
                        "measured": EVIL,
                        "expected": EVIL,
                        "action": "reboot",
                        "source": EVIL,
                    }
                ],
            }
        ],
    }
    told = [
        NodeResult(EVIL, "ssh", Answer.REPORTED, report=report, detail=EVIL),
        NodeResult("n2", "ssh", Answer.GARBAGE, detail=EVIL),
    ]
    page = render(Sweep(1.0, 1.0, EVIL, tuple(told), notes=(EVIL,), version=EVIL), title=EVIL)
    page.encode("utf-8")
    assert not set(page) & (FORBIDDEN - {"\r"})
    assert "<img" not in page
    assert "<script>alert" not in page
    assert page.count("</script>") == page.count("<script")
    assert "49" not in re.findall(r"\{\{.*?\}\}", page)
