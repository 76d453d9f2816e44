"""`--preflight`: the user asks, the site decides."""

import pytest

from healthcheck.config import Config
from healthcheck.model import Job
from prolog.preflight import settle, wish

SPANK = "SPANK_FLIGHTCHECK_PREFLIGHT"


def flight(**facts) -> Job:
    return Job(job_id=7, account="physics", partition="gpu", **facts)


@pytest.mark.parametrize(
    ("spank", "comment", "asked"),
    [
        (None, None, None),
        (None, "a run for the paper", None),
        ("off", None, "off"),
        (None, "preflight=full", "full"),
        (None, "run 3, preflight=quick; urgent", "quick"),
        ("full", "preflight=off", "full"),
        (None, "nopreflight=off", None),
        (None, "preflight=", ""),
        (None, "preflight=off'; rm -rf /", "off'"),
    ],
)
def test_the_option_beats_the_comment(spank, comment, asked):
    assert wish(flight(spank={SPANK: spank} if spank else {}, comment=comment)) == asked


def test_without_a_job_nobody_asked():
    assert wish(None) is None


@pytest.mark.parametrize(
    ("table", "granted"),
    [
        ({}, False),
        ({"off_accounts": ["physics"]}, True),
        ({"off_accounts": ["biology"]}, False),
        ({"off_partitions": ["gpu"]}, True),
        ({"off_partitions": ["*"]}, True),
        ({"off_acounts": ["physics"]}, False),
        ({"off_accounts": "physics"}, False),
    ],
)
def test_off_counts_only_where_the_site_lets_it(table, granted):
    config = Config(preflight=table)
    settled, told = settle("off", flight(), config)
    assert (settled is None) is granted
    assert granted is ("nothing was looked at" in told)


def test_without_an_account_only_everybody_may():
    nobody = Job(job_id=7)
    assert settle("off", nobody, Config(preflight={"off_accounts": [""]}))[0] is not None
    assert settle("off", nobody, Config(preflight={"off_accounts": ["*"]}))[0] is None


def test_full_runs_the_full_test_and_quick_no_longer_one_than_quick():
    site = Config(allreduce={"mode": "off", "partitions": {"gpu": "full"}, "timeout_s": 40})
    full, _ = settle("full", flight(), Config())
    assert full.allreduce == {"mode": "full", "partitions": {}, "max_age_s": 0}
    quick, _ = settle("quick", flight(), site)
    assert quick.allreduce == {"mode": "quick", "partitions": {}, "timeout_s": 40}
    # Whoever is in a hurry gets out of no test that the site wants.
    wanted = Config(allreduce={"mode": "quick"})
    assert settle("quick", flight(), wanted)[0].allreduce["mode"] == "quick"
    assert settle("quick", flight(), Config())[0] == Config()


@pytest.mark.parametrize("value", ["", "OFF", "none", "off\n", "x" * 4000, "\x1b[31m"])
def test_any_other_value_is_told_and_ignored(value):
    config = Config(preflight={"off_accounts": ["*"]})
    settled, told = settle(value, flight(), config)
    assert settled is config
    assert "expected off, quick or full" in told and len(told) < 200 and told.isprintable()


def test_a_prolog_that_may_look_at_nothing_says_so_and_a_sick_node_starts_the_job(h100, job):
    h100.break_("xid-79")
    h100.configure('[preflight]\noff_accounts = ["physics"]\n')
    config = {"FLIGHTCHECK_CONFIG": str(h100.config), "SLURM_JOB_ACCOUNT": "physics"}
    off = h100.run("flightcheck-prolog", **job, **config, **{SPANK: "off"})
    assert (off.returncode, "nothing was looked at" in off.stdout) == (0, True)
    assert "no-go" not in off.stdout
    other = {**config, "SLURM_JOB_ACCOUNT": "biology"}
    done = h100.run("flightcheck-prolog", **job, **other, **{SPANK: "off"})
    assert "may not" in done.stdout and "no-go" in done.stdout
