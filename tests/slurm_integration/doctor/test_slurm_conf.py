"""Slurm's configuration, as scontrol shows it and as people write it."""

import math

import pytest
from facts_for_doctor import SHOWN

from slurm_integration.doctor.reading.slurm_files import (
    plugstack_files,
    read_gres,
    read_plugins,
    read_slurm_conf,
)
from slurm_integration.doctor.slurm_conf import parse_shown, parse_written


def test_what_scontrol_of_22_05_shows():
    slurm = parse_shown(SHOWN)
    assert slurm.version == (22, 5)
    assert slurm.path == "/etc/slurm/slurm.conf"
    assert slurm.all("Prolog") == ("/etc/slurm/flightcheck/prolog.sh",)
    assert slurm.all("EpilogSlurmctld") == ()
    assert slurm.text("PowerPlugin") == ""
    assert slurm.text("InteractiveStepOptions").endswith("--pty $SHELL")
    assert slurm.as_of == 1796107283.0


def test_sections_of_other_files_are_not_slurms_own():
    assert parse_shown(SHOWN).seconds("MessageTimeout") == 10


def test_scripts_with_an_index_as_newer_releases_show_them():
    text = "Prolog[0]  = /etc/a\nProlog[1]  = /etc/b\nEpilog[0] = (null)\nSLURM_VERSION = 25.11.1\n"
    slurm = parse_shown(text)
    assert slurm.all("Prolog") == ("/etc/a", "/etc/b")
    assert slurm.all("Epilog") == ()
    assert slurm.version == (25, 11)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30 sec", 30), ("5 min", 300), ("0", 0), ("UNLIMITED", math.inf), ("INFINITE", math.inf),
     ("65534", math.inf), ("65534 sec", math.inf), ("soon", None), ("-3", None),
     ("9999999999", None)],
)  # fmt: skip
def test_times(text, expected):
    assert parse_shown(f"MessageTimeout = {text}\n").seconds("MessageTimeout") == expected


@pytest.mark.parametrize(
    "text", ["", "\0", "=\n= =\n", "slurm_load_ctl_conf error: x", "a" * 99999]
)
def test_a_text_that_is_no_configuration_gives_an_empty_one(text):
    slurm = parse_shown(text)
    assert slurm.all("Prolog") == ()
    assert slurm.version is None


def test_a_written_file_with_comments_case_quotes_and_continued_lines():
    slurm = parse_written(
        "prologflags=Alloc, \\\n  Contain # and no more\n# Prolog=/no\nTaskProlog=\"/a b\"\n"
        "NodeName=node01 Gres=gpu:8\nPartitionName=x Nodes=ALL\n", "/etc/slurm/slurm.conf"
    )  # fmt: skip
    assert slurm.words("PrologFlags") == ("Alloc", "Contain")
    assert slurm.text("TaskProlog") == "/a b"
    assert slurm.all("Prolog") == ()
    assert "nodename" not in slurm.values
    assert slurm.seconds("MessageTimeout") == 10  # Slurm's default
    assert slurm.as_of is None


def test_includes_are_followed_but_not_for_ever(tmp_path):
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nInclude more.conf\n")
    (tmp_path / "more.conf").write_text("Prolog=/etc/a\n")
    assert read_slurm_conf(str(tmp_path / "slurm.conf")).all("Prolog") == ("/etc/a",)
    (tmp_path / "more.conf").write_text("include more.conf\n")
    with pytest.raises(OSError, match="includes"):
        read_slurm_conf(str(tmp_path / "slurm.conf"))


def conf_in(folder, text="GresTypes=gpu\n"):
    path = folder / "slurm.conf"
    path.write_text(text)
    return read_slurm_conf(str(path))


@pytest.mark.parametrize(
    ("text", "devices"),
    [("Name=gpu Count=8", [False]), ("Name=gpu File=/dev/nvidia[0-7]", [True]),
     ("NodeName=n[1-4] Name=gpu Type=h100 Count=8", [False]), ("AutoDetect=nvml\nName=gpu", [True]),
     ("AutoDetect=off\nName=gpu Count=1", [False]), ("Name=mps Count=100", []),
     ("#Name=gpu Count=8", []), ("Name=gpu MultipleFiles=/dev/a,/dev/b", [True])],
)  # fmt: skip
def test_gres_conf(tmp_path, text, devices):
    (tmp_path / "gres.conf").write_text(text)
    assert [line.has_devices for line in read_gres(conf_in(tmp_path))] == devices


def test_no_gres_conf_here_is_nothing_to_judge(tmp_path):
    assert read_gres(conf_in(tmp_path)) == ()


def test_the_plugin_is_found_through_includes(tmp_path):
    (tmp_path / "plugstack.conf").write_text("optional other.so\ninclude d/*.conf\n")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/1.conf").write_text("# optional flightcheck.so\nrequired flightcheck.so a=b\n")
    slurm = conf_in(tmp_path, "PluginDir=/no:/nowhere\n")
    (plugin,) = read_plugins(slurm)
    assert (plugin.file, plugin.line) == (str(tmp_path / "d/1.conf"), 2)
    assert plugin.required
    assert plugin.path == "/no/flightcheck.so"
    assert "no such file" in plugin.problem


def test_a_plugin_of_others_in_our_folder_is_not_ours(tmp_path):
    (tmp_path / "plugstack.conf").write_text("required /opt/flightcheck/lib/pyxis.so\n")
    assert read_plugins(conf_in(tmp_path, "PluginDir=/no\n")) == ()


def test_a_plugstack_that_includes_itself_ends(tmp_path):
    path = tmp_path / "plugstack.conf"
    path.write_text(f"include {path}\ninclude *.conf\n")
    assert plugstack_files(str(path)) == [str(path)]
