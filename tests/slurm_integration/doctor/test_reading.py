"""What the doctor reads of files: scripts, owners, plugins, installations, compiled modules."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from healthcheck.config import Config, DrainSettings
from slurm_integration.doctor.model import Settings
from slurm_integration.doctor.reading import elf, installation, node
from slurm_integration.doctor.reading.files import closed, loose
from slurm_integration.doctor.reading.hooks import read_hooks, read_script
from slurm_integration.doctor.reading.programs import called
from slurm_integration.doctor.slurm_conf import parse_shown

BIN = Path(sys.executable).parent


def put(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("exec /opt/x/bin/flightcheck-prolog", ["flightcheck-prolog"]),
        ('program=/opt/x/bin/flightcheck-epilog\n"$program"', ["flightcheck-epilog"]),
        ("/opt/x/bin/flightcheck-prolog || exit 0", ["flightcheck-prolog"]),
        ("true; flightcheck-health", ["flightcheck-health"]),
        ("/opt/x/bin/python -I -m prolog.task", ["flightcheck-task-prolog"]),
        ("# exec /opt/x/bin/flightcheck-prolog", []),
        ("echo flightcheck-prolog is missing", []),
        ("/etc/slurm/flightcheck-prolog.sh", []),
        ("cp /tmp/flightcheck-prolog-old /tmp/x", []),
    ],
)
def test_which_programs_a_script_calls(text, names):
    assert [program.name for program in called(f"#!/bin/sh\n{text}\n", "/x")] == names


def test_a_bare_name_is_looked_for_in_the_scripts_own_path(tmp_path):
    put(tmp_path / "flightcheck-prolog", "#!/bin/sh\n")
    found = called(f"#!/bin/sh\nPATH={tmp_path}:/bin\nexec flightcheck-prolog\n", "/x")
    assert [program.path for program in found] == [str(tmp_path / "flightcheck-prolog")]
    # slurmd gives a hook no PATH.
    assert not called("#!/bin/sh\nexec flightcheck-prolog\n", "/x")[0].runs


def test_a_driver_script_that_runs_a_folder_is_followed(tmp_path):
    put(tmp_path / "prolog.d/50-fc", f"#!/bin/sh\nexec {BIN}/flightcheck-prolog\n")
    driver = put(tmp_path / "prolog", f"#!/bin/sh\nfor f in {tmp_path}/prolog.d/*; do $f; done\n")
    assert [program.runs for program in read_script(str(driver)).programs] == [True]
    assert "HOME" not in read_script(str(driver)).sets
    put(tmp_path / "prolog.d/50-fc", f"#!/bin/sh\nHOME=/root\nexec {BIN}/flightcheck-prolog\n")
    assert "HOME" in read_script(str(driver)).sets


def test_scripts_of_every_kind_are_read_without_an_error(tmp_path):
    assert read_script(str(tmp_path / "none")).problem == "not there"
    (tmp_path / "link").symlink_to(tmp_path / "none")
    assert "a link to nothing" in read_script(str(tmp_path / "link")).problem
    os.mkfifo(tmp_path / "fifo")
    assert "regular file" in read_script(str(tmp_path / "fifo")).problem
    assert read_script(str(tmp_path)).problem
    assert read_script("/bin/true").binary
    assert read_script(str(put(tmp_path / "s", "#!/bin/sh\r\n"))).interpreter_missing == "/bin/sh\r"
    assert read_script(str(put(tmp_path / "e", ""))).first_line == ""
    assert read_script(str(put(tmp_path / "m", "#!\n"))).interpreter_missing == "(none)"


def test_a_glob_and_a_script_by_its_name(tmp_path):
    put(tmp_path / "d/10-a", "#!/bin/sh\n")
    shown = f"Prolog = {tmp_path}/d/*\nEpilog = {tmp_path}/none/*\nTaskProlog = {tmp_path}/d/*\n"
    prolog, epilog, task = read_hooks(parse_shown(shown))
    assert [script.path for script in prolog.scripts] == [f"{tmp_path}/d/10-a"]
    assert epilog.globbed and not epilog.scripts
    assert not task.globbed  # Slurm expands none there


def test_who_else_can_change_a_file(tmp_path):
    path = put(tmp_path / "a/script", "x")
    base = loose(str(path), owner=os.geteuid())
    assert base == ()
    path.chmod(0o757)
    assert loose(str(path), owner=os.geteuid()) == (f"{path} is mode 0757",)
    path.chmod(0o755)
    (tmp_path / "a").chmod(0o777)
    assert loose(str(path), owner=os.geteuid()) == (f"{tmp_path}/a is mode 0777",)
    (tmp_path / "a").chmod(0o1777)  # as /tmp: nobody can replace what is in it
    assert loose(str(path), owner=os.geteuid()) == ()
    link = tmp_path / "link"
    link.symlink_to(path)
    path.chmod(0o666)
    assert loose(str(link), owner=os.geteuid()) == (f"{path} is mode 0666",)


def test_what_keeps_users_out(tmp_path):
    path = put(tmp_path / "a/script", "x")
    (tmp_path / "a").chmod(0o700)
    path.chmod(0o750)
    told = closed(str(path))
    assert f"{tmp_path}/a is mode 0700" in told
    assert f"{path} is mode 0750" in told


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> bytes:
    """A plugin of Slurm 24.11.5, as far as its symbols go."""
    folder = tmp_path_factory.mktemp("spank")
    source = folder / "p.c"
    source.write_text(
        'const char plugin_type[] = "spank";\nconst unsigned int plugin_version = 0x180b05;\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "p.so", source], check=True)
    return (folder / "p.so").read_bytes()


def test_the_release_that_a_plugin_was_built_for(library):
    assert elf.built_for(library) == (24, 11)


def test_a_library_that_is_no_plugin(library):
    with pytest.raises(elf.NotAPlugin, match="no symbol"):
        elf.symbol_u32(library, "no_such_symbol")


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(99)])
def test_a_file_that_is_no_library(data):
    with pytest.raises(elf.NotAPlugin):
        elf.built_for(data)


def test_a_damaged_library_is_said_to_be_one_and_breaks_nothing(library):
    dice = random.Random(6)
    for _ in range(2000):
        data = bytearray(library[: dice.randrange(64, len(library))])
        for _ in range(dice.randrange(1, 8)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            elf.built_for(bytes(data))
        except elf.NotAPlugin:
            pass


def test_the_prefix_of_a_command_is_its_venvs(tmp_path):
    ours = sys.prefix
    assert installation.prefix_of(str(BIN / "flightcheck")) == ours
    wrapper = put(tmp_path / "flightcheck", f'#!/bin/sh\nexec {BIN}/flightcheck "$@"\n')
    assert installation.prefix_of(str(wrapper)) == ours
    link = tmp_path / "link"
    link.symlink_to(BIN / "flightcheck")
    assert installation.prefix_of(str(link)) == ours
    assert installation.prefix_of(str(tmp_path / "none")) == ""


def test_a_second_flightcheck_in_path_is_seen(tmp_path):
    put(tmp_path / "bin/flightcheck", f"#!{tmp_path}/venv/bin/python3\n")
    found = {one.prefix for one in installation.read_installations((), f"{tmp_path}/bin:{BIN}")}
    assert {sys.prefix, f"{tmp_path}/venv"} <= found


def test_modules_without_a_current_pyc_are_counted(tmp_path):
    module = put(tmp_path / "one.py", "x = 1\n", 0o644)
    assert not installation._compiled(str(module))
    subprocess.run([sys.executable, "-m", "compileall", "-q", tmp_path], check=True)
    assert installation._compiled(str(module))
    os.utime(module, (1, 1))
    assert not installation._compiled(str(module))


def test_our_interpreter_starts():
    found = installation.read_interpreter()
    assert found.problem == ""
    assert found.start_s is not None
    assert found.modules > 100


@pytest.mark.parametrize(
    ("name", "expected"),
    [(b"slurmd", True), (b"slurmd-wlm", True), (b"slurmdbd", False), (b"slurmstepd", False),
     (b"slurmctld-wlm", False), (b"", False)],
)  # fmt: skip
def test_slurmd_is_known_by_both_names_that_debian_gives_it(name, expected):
    assert node.is_slurmd(name) is expected


def test_folders_that_the_configuration_names_are_looked_at(tmp_path):
    config = Config(drain=DrainSettings(seats_dir=f"{tmp_path}/seats"), metrics_dir=str(tmp_path))
    found = node.read_folders(Settings("", config, 30.0, f"{tmp_path}/shared"))
    told = {one.role: one.problem for one in found if one.role != "state_dir"}
    missing = {"[epilog] shared_dir": "not there", "[drain] seats_dir": "not there"}
    assert told == {**missing, "metrics_dir": ""}


def test_munge_that_does_not_answer(tmp_path):
    shown = parse_shown(f"AuthInfo = cred_expire=60,socket={tmp_path}/socket\n")
    path, problem = node.read_munge(shown)
    assert path == f"{tmp_path}/socket"
    assert "No such file" in problem


def test_a_history_that_can_not_be_reached_is_told_without_its_password(tmp_path):
    from healthcheck.config import Config

    def told(url):
        return node.read_history(Config(history_db=url), node=False)

    assert told(f"sqlite:///{tmp_path}/history.db") == ""
    assert not (tmp_path / "history.db").exists()
    assert "folder" in told(f"sqlite:///{tmp_path}/none/history.db")
    refused = told("postgresql+psycopg://user:hunter2@127.0.0.1:1/x")
    assert "can't be used" in refused
    assert "hunter2" not in refused
    assert told("no url at all")


def test_a_simulated_node_with_and_without_its_driver(h100):
    from healthcheck.host import host_at

    assert node.read_hardware(host_at(str(h100.root))).gpus == 8
    assert node.read_hardware(host_at(str(h100.root))).nvml_problem == ""
    for path in h100.root.rglob("libnvidia-ml.so.1"):
        path.unlink()
    assert "libnvidia-ml" in node.read_hardware(host_at(str(h100.root))).nvml_problem
