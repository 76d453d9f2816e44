"""The report as people use it: in a browser, from disk."""

import time

import pytest
from sample_fleet import fleet, result, trouble

from healthcheck.model import Severity
from slurm_integration.fleet_report import render
from slurm_integration.sweep.model import (
    Action,
    Answer,
    Comparison,
    FleetFinding,
    Metric,
    NodeResult,
    Sweep,
)

ENTER, DOWN, END, ESCAPE, TAB = "\ue007", "\ue015", "\ue010", "\ue00c", "\ue004"


def wait(what, timeout_s: float = 240) -> None:
    until = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < until, "not in time"
        time.sleep(0.05)


def sick_names(sweep: Sweep, verdict: str) -> list[str]:
    return [r.node for r in sweep.results if r.verdict == verdict]


def test_it_opens_from_disk_without_a_complaint_or_a_request(browser, page_of_400):
    browser.open(page_of_400)
    assert browser.errors() == []
    assert browser.js("return performance.getEntriesByType('resource').length") == 0
    assert browser.count() == "all 400 nodes"
    assert browser.texts("h1") == ["Fleet report: atlas"]


def test_a_verdicts_button_filters_the_list_and_can_be_let_go(browser, page_of_400):
    sweep, _ = fleet(400, sick_share=0.1)
    expected = sick_names(sweep, "no-go")
    browser.open(page_of_400)
    browser.js("document.querySelector('[data-standing=\"no-go\"]').click()")
    assert browser.count() == f"{len(expected)} of 400 nodes"
    assert set(browser.rows()) == set(expected)
    assert browser.texts('.tally [aria-pressed="true"]')[0].endswith("no-go")
    browser.js("document.querySelector('[data-standing=\"no-go\"]').click()")
    assert browser.count() == "all 400 nodes"


@pytest.mark.parametrize(
    ("field", "value", "belongs"),
    [
        ("f-check", "ib-ports", lambda r, _: any(c == "ib-ports" for c, _ in r.findings())),
        ("f-rack", "rack-002", lambda r, racks: racks[r.node] == "rack-002"),
        ("f-standing", "no answer", lambda r, _: r.verdict is None),
    ],
)
def test_the_selections_filter(browser, page_of_400, field, value, belongs):
    sweep, racks = fleet(400, sick_share=0.1)
    expected = sum(bool(belongs(r, racks)) for r in sweep.results)
    browser.open(page_of_400)
    browser.js(
        "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('change'))",
        field,
        value,
    )
    assert 0 < expected < 400
    assert browser.count() == f"{expected} of 400 nodes"


@pytest.mark.parametrize("words", ["node0017", "leaf DOWN", "remapping has failed", "MLX5_3/1"])
def test_the_search_looks_in_names_findings_and_addresses_word_by_word(browser, words):
    results = [
        result("node0017", "no-go", [trouble(4)]),
        result("node0018", "no-go", [trouble(1)]),
        NodeResult("node0019", "ssh", Answer.UNREACHABLE, detail="leaf switch is down"),
        result("node0020"),
    ]
    hits = {
        "node0017": ["node0017"],
        "leaf DOWN": ["node0019"],
        "remapping has failed": ["node0018"],
        "MLX5_3/1": ["node0017"],
    }
    browser.open(render(Sweep(0, 1, "sweep", tuple(results))))
    browser.keys("#q", words)
    wait(lambda: browser.rows() == hits[words])
    assert browser.texts("#folded") == hits[words]


def test_a_search_without_a_hit_says_so_and_escape_clears_it(browser, page_of_400):
    browser.open(page_of_400)
    browser.keys("#q", "no such thing")
    wait(lambda: browser.count() == "0 of 400 nodes")
    assert browser.texts("#rows") == ["No node is like that."]
    browser.keys("#q", ESCAPE)
    wait(lambda: browser.count() == "all 400 nodes")


def test_the_view_is_in_the_address_and_comes_back_from_it(browser, page_of_400):
    browser.open(page_of_400)
    browser.js("document.querySelector('[data-standing=degraded]').click()")
    browser.js("document.querySelector('#rows tr[id]').click()")
    address = browser.driver.current_url
    chosen = browser.texts("#detail h3")
    browser.driver.get("about:blank")
    browser.driver.get(address)
    assert browser.texts("#detail h3") == chosen
    assert browser.count().endswith("of 400 nodes")
    assert browser.errors() == []


def test_a_chosen_node_shows_measured_expected_remedy_and_what_to_run(browser):
    sweep = Sweep(0, 1, "sweep", (result("node01"), result("node02", "no-go", [trouble(0)])))
    browser.open(render(sweep))
    browser.js("document.querySelector('#rows tr[id]').click()")
    detail = browser.texts("#detail")[0]
    for words in (
        "node02", "7 of 8 GPUs visible (missing 0000:b3:00.0)", "measured 7", "expected 8",
        "remedy reboot", "NVIDIA DGX", "flightcheck explain gpu-count",
        "flightcheck sweep -w node02 --drain", "scontrol reboot node02",
        "flightcheck requalify -w node02",
    ):  # fmt: skip
        assert words in detail


def test_the_whole_page_works_by_keyboard(browser, page_of_400):
    browser.open(page_of_400)
    browser.keys("body", "/")
    assert browser.js("return document.activeElement.id") == "q"
    browser.keys("#table", DOWN, DOWN)
    second = browser.js("return document.querySelector('[aria-selected=true] .c-n').innerText")
    assert second == browser.rows()[1]
    assert browser.js(
        "return document.getElementById('table').getAttribute('aria-activedescendant')"
    )
    browser.keys("#table", END)
    assert browser.js("return document.querySelector('[aria-selected=true] .c-n').innerText")
    browser.keys("#table", ENTER)
    assert browser.js("return document.activeElement.id") == "detail"
    browser.keys("#grid", "n", ENTER)
    assert "go" not in browser.texts("#detail .word")
    browser.keys("th[data-sort=name] button", ENTER)
    assert browser.js("return document.querySelector('[data-sort=name]').ariaSort") == "ascending"
    assert browser.rows()[:2] == ["node0001", "node0002"]


def test_everything_that_takes_the_focus_shows_it(browser):
    sweep, racks = fleet(40, sick_share=0.1)
    browser.open(render(sweep, racks=racks))
    seen = set()
    for _ in range(150):
        browser.driver.switch_to.active_element.send_keys(TAB)
        tag, outline, stroke = browser.js(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "const c = e.querySelector('circle');"
            "return [e.tagName + '#' + e.id, s.outlineStyle, c && getComputedStyle(c).strokeWidth]"
        )
        if tag in ("BODY#", "HTML#"):
            break
        seen.add(tag)
        assert outline != "none" or (tag == "g#" and stroke == "2.5px"), tag
    assert {"A#", "INPUT#q", "CANVAS#grid", "TABLE#table", "SUMMARY#", "g#"} <= seen


def test_dark_mode_follows_the_browser_and_is_readable(browser, page_of_400):
    def brightness(what: str) -> float:
        colour = browser.js(f"return getComputedStyle(document.body).{what}")
        return sum(map(int, colour[4:-1].split(",")[:3])) / 3

    browser.media(prefers_color_scheme="light")
    browser.open(page_of_400)
    assert brightness("backgroundColor") > 200 > 90 > brightness("color")
    cell = (
        "return [...document.getElementById('grid').getContext('2d').getImageData(4,22,1,1).data]"
    )
    light = browser.js(cell)
    browser.media(prefers_color_scheme="dark")
    wait(lambda: browser.js(cell) != light)
    assert brightness("backgroundColor") < 60 < 180 < brightness("color")


@pytest.mark.parametrize("width", [320, 390, 768])
def test_on_a_phone_nothing_is_wider_than_the_screen(browser, page_of_400, width):
    browser.screen(width, 800)
    browser.open(page_of_400)
    browser.js("document.querySelector('#rows tr[id]').click()")
    browser.js("document.querySelectorAll('details').forEach(d => { d.open = true })")
    wide, inner = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner == width
    assert browser.errors() == []


def test_without_javascript_the_summary_and_the_sick_nodes_are_there(browser, page_of_400):
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.open(page_of_400)
    text = browser.driver.find_element("css selector", "body").text
    sweep, _ = fleet(400, sick_share=0.1)
    for name in sick_names(sweep, "no-go"):
        assert name in text
    assert "flightcheck explain" in text
    assert not browser.driver.find_element("css selector", "#app").is_displayed()


def test_on_paper_all_sick_nodes_and_groups_are_there(browser, page_of_400):
    browser.open(page_of_400)
    browser.js("dispatchEvent(new Event('beforeprint'))")
    sweep, _ = fleet(400, sick_share=0.1)
    sick = [r.node for r in sweep.results if r.verdict != "go"]
    assert sorted(browser.rows()) == sorted(sick)
    assert browser.js("return document.querySelectorAll('details:not([open])').length") == 0
    browser.js("dispatchEvent(new Event('afterprint'))")
    assert browser.count() == "all 400 nodes"
    assert len(browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 10_000


def test_a_dot_of_a_plot_leads_to_its_node(browser, page_of_400):
    browser.open(page_of_400)
    name = browser.js("return document.querySelector('.dot.linked').dataset.node")
    browser.keys(".dot.linked", ENTER)
    assert browser.texts("#detail h3") == [name]
    assert "beyond the bounds" in browser.texts("#detail")[0]


def test_copying_a_command_puts_exactly_it_on_the_clipboard(browser, page_of_400):
    browser.open(page_of_400)
    browser.js(
        "window.copied = []; navigator.clipboard.writeText = async (t) => { copied.push(t) };"
        "document.querySelector('.commands .copy').click()"
    )
    shown = browser.js("return document.querySelector('.commands code').textContent")
    wait(lambda: browser.js("return window.copied") == [shown])


PAYLOADS = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "'-window.hacked=1-'",
    "<!--<script>",
    "]]><svg onload=window.hacked=1>",
    "{{7*7}}${7*7}",
    "\u2028window.hacked=1\u2029",
    "__proto__",
    "$& $1 `window.hacked=1`",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_whatever_a_host_says_is_shown_as_text(browser, payload):
    finding = {
        "check": payload, "severity": "fail", "subject": payload, "message": payload,
        "measured": payload, "expected": payload, "action": "replace", "source": payload,
    }  # fmt: skip
    sick = result(f"a{payload}", "no-go", [finding], state=payload, blind=payload)
    assert sick.report is not None
    sick.report["profile"] = payload
    results = (
        sick,
        NodeResult(f"b{payload}", payload, Answer.GARBAGE, detail=payload, state=payload),
    )
    findings = (
        FleetFinding(
            payload, Severity.FAIL, payload, payload, (payload,), payload, payload, payload
        ),
    )
    metric = Metric(payload, payload, payload, 1.0, 1.0, 0.5, 2.0, {r.node: 9.0 for r in results})
    sweep = Sweep(
        1.0, 1.0, payload, results, False, Comparison(findings, (metric,)),
        (Action(payload, (payload,), payload),), (payload,), version=payload,
    )  # fmt: skip
    racks = {r.node: payload for r in results}
    browser.open(render(sweep, racks=racks, title=payload))
    browser.js("document.querySelector('#rows tr[id]').click()")
    browser.js("document.querySelectorAll('.dot')[0].dispatchEvent(new Event('click'))")
    browser.keys("#q", "hacked")
    assert browser.js("return window.hacked") is None
    assert browser.errors() == []
    assert (
        browser.js("return document.querySelectorAll('img, iframe, [onload], [onerror]').length")
        == 0
    )
    clean = " ".join(payload.replace("\u2028", " ").replace("\u2029", " ").split())
    assert clean in browser.js("return document.getElementById('detail').textContent")


def test_no_inline_script_but_ours_runs(browser, page_of_400):
    browser.open(page_of_400)
    browser.js(
        "const s = document.createElement('script'); s.textContent = 'window.hacked=1';"
        "document.body.append(s)"
    )
    assert browser.js("return window.hacked") is None
    assert any("Content Security Policy" in entry["message"] for entry in browser.errors())


def test_ten_thousand_nodes_are_small_and_usable(browser):
    sweep, racks = fleet(10_000, sick_share=0.1)
    page = render(sweep, racks=racks)
    assert len(page.encode()) < 8_000_000
    browser.open(page)
    assert browser.count() == "all 10,000 nodes"
    assert browser.js("return document.querySelectorAll('#rows tr').length") < 100
    assert browser.js("return document.getElementsByTagName('*').length") < 12_000
    browser.keys("#table", END)
    assert browser.js("return document.querySelector('[aria-selected=true] .c-n').innerText")
    browser.keys("#q", "gpu-count")
    wait(lambda: browser.count() != "all 10,000 nodes")
    assert browser.errors() == []


@pytest.mark.parametrize("results", [(), (result("node01"),)])
def test_an_empty_sweep_and_one_healthy_node_are_pages_too(browser, results):
    browser.open(render(Sweep(0.0, 0.0, "sweep", results)))
    browser.keys("#grid", DOWN, "n")
    browser.keys("#table", DOWN)
    assert browser.errors() == []
    assert "Every node that was asked says go." in browser.texts("main")[0]
