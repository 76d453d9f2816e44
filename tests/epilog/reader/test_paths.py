"""Slurm's file name patterns."""

from glob import glob

import pytest

from epilog.reader.paths import codes_of_name, expand, expand_site, needs

KNOWN = {"j": "17", "A": "15", "a": "2", "u": "ann", "x": "train"}


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("slurm-%j.out", "/w/slurm-17.out"),
        ("/logs/%u/%x-%A_%a.log", "/logs/ann/train-15_2.log"),
        ("out-%5j-%3a", "/w/out-00017-002"),
        ("task-%t-%N.log", "/w/task-*-*.log"),
        ("%s.%n", "/w/*.*"),
        ("100%%-%j", "/w/100%-17"),
        (r"raw-\%j", "/w/raw-%j"),
        ("plain.log", "/w/plain.log"),
        ("what[1]?*-%j", "/w/what[[]1][?][*]-17"),
        ("%99j", "/w/0000000017"),
    ],
)
def test_patterns_become_globs(pattern, path):
    assert expand(pattern, KNOWN, "/w") == path


@pytest.mark.parametrize("pattern", ["%y.out", "", "a\0b", "x" * 5000])
def test_what_cannot_be_expanded_is_no_path(pattern):
    assert expand(pattern, KNOWN, "/w") is None
    assert expand("%x", {"j": "1"}, "/w") is None
    assert expand("rel", KNOWN, None) is None


def test_a_name_with_slashes_and_wildcards_leads_nowhere_else(tmp_path):
    name = "../../etc/*"
    path = expand("%x.out", {"x": name}, str(tmp_path))
    assert path is not None
    assert ".." not in path.removeprefix(str(tmp_path)).split("/")
    (tmp_path / ".._.._etc_*.out").write_text("")
    assert glob(path) == [str(tmp_path / ".._.._etc_*.out")]


def test_what_a_pattern_needs():
    assert needs("a%j-%%-%3A") == {"j", "A"}
    assert needs(None) == set()
    assert needs(r"\%x") == set()


def test_wildcards_of_the_site_are_meant():
    assert expand_site("logs/%x/*.log", KNOWN, "/w") == "/w/logs/train/*.log"
    assert expand_site("logs/%y", KNOWN, "/w") is None


def test_a_file_name_tells_node_and_task():
    pattern = "log-%x-%N-%t.txt"
    assert codes_of_name("/w/log-train-gpu-01-12.txt", pattern, KNOWN) == {"N": "gpu-01", "t": "12"}
    assert codes_of_name("/w/other.txt", pattern, KNOWN) == {}
    assert codes_of_name("/w/slurm-17.out", "slurm-%j.out", KNOWN) == {}
    assert codes_of_name("/l/n1/3", "/l/%N/%t", KNOWN) == {"N": "n1", "t": "3"}
