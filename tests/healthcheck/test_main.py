"""What the entry point starts ahead of the command line, and that it never stays."""

import subprocess
import sys

import pytest

from healthcheck.main import STAGES, expected
from healthcheck.registry import STAGES as ALL_STAGES


def test_the_stages_are_the_registrys():
    assert STAGES == ALL_STAGES


@pytest.mark.parametrize(
    ("argv", "environment", "wanted"),
    [
        (["check"], {}, ("", "sweep")),
        (["check", "--stage", "prolog", "--json"], {}, ("", "prolog")),
        (["check", "--stage=epilog"], {"FLIGHTCHECK_ROOT": "/n1"}, ("/n1", "epilog")),
        (["check", "--root", "/n2"], {"FLIGHTCHECK_ROOT": "/n1"}, ("/n2", "sweep")),
        (["check", "--root=/n2"], {}, ("/n2", "sweep")),
        (["check", "--replay", "x"], {}, None),
        (["check", "--replay=x"], {}, None),
        (["check", "--help"], {}, None),
        (["check", "--stage", "no"], {}, None),
        (["check", "--stage"], {}, ("", "sweep")),
        (["explain", "xid"], {}, None),
        ([], {}, None),
    ],
)
def test_only_a_look_at_this_node_is_expected(argv, environment, wanted):
    assert expected(argv, environment) == wanted


def test_a_wrong_command_line_leaves_no_reading_behind(h100):
    h100.break_("nvml-hang")
    done = h100.run("flightcheck", "check", "--no-such-option", timeout=240)
    assert done.returncode == 64
    argv = ["pgrep", "-f", f"flightcheck.*{h100.root}"]
    assert subprocess.run(argv, capture_output=True).stdout == b""


def test_the_early_reading_is_the_one_that_is_judged(h100):
    h100.break_("gpu-lost")
    code = (
        "import sys; sys.argv = ['flightcheck', 'check'];"
        "import healthcheck.reading as r; n = []; old = r.Reading.__init__;"
        "r.Reading.__init__ = lambda s, p, *a: (n.append(p), old(s, p, *a))[1];"
        "import healthcheck.main as m; m._leave = lambda code: None\n"
        "try:\n    m.main()\nexcept SystemExit as e:\n    assert e.code == 2, e.code\n"
        "assert n.count('nvml') == 1, n"
    )
    subprocess.run([sys.executable, "-c", code], env=h100.environment(), check=True)
