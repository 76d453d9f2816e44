"""What the source may not contain: it would run somebody's text, or trust somebody's file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("healthcheck", "prolog", "epilog", "slurm_integration")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PROCESSES = {
    "slurm_integration/scontrol.py",
    "slurm_integration/commands/sandbox_run.py",
    "slurm_integration/sweep/transports/process.py",
    "slurm_integration/sweep/transports/ssh/connection.py",
}
"""The doors that start programs with subprocess; all others use healthcheck/command.py."""
FORBIDDEN = {
    "os.system",
    "os.popen",
    "os.spawnl",
    "os.spawnlp",
    "os.spawnv",
    "os.spawnvp",
    "pty.spawn",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "eval",
    "exec",
    "compile",
    "__import__",
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "shelve.open",
    "dill.loads",
    "yaml.load",
    "torch.load",
    "tempfile.mktemp",
    "os.tempnam",
    "os.tmpnam",
    "ssl._create_unverified_context",
}


def calls(path: Path) -> Iterator[tuple[int, str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func), node


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def product(path: Path) -> bool:
    """Not the sandbox and its drill, which play a cluster for whoever starts them."""
    return not relative(path).startswith(("slurm_integration/sandbox/", "slurm_integration/drill/"))


def found(wanted) -> list[str]:
    return [
        f"{relative(path)}:{line}: {name}"
        for path in FILES
        for line, name, call in calls(path)
        if wanted(path, name, call)
    ]


def test_no_shell_is_ever_asked():
    assert not found(
        lambda path, name, call: any(
            word.arg == "shell"
            and not (isinstance(word.value, ast.Constant) and not word.value.value)
            for word in call.keywords
        )
    )


def test_nothing_that_runs_text_or_trusts_a_file_is_called():
    assert not found(lambda path, name, call: name in FORBIDDEN)


def test_marshal_reads_from_our_own_forks_alone():
    """marshal may crash the interpreter: its data must come from a child that ran our code only."""
    at = found(lambda path, name, call: name == "marshal.loads")
    assert [line.rpartition(":")[0].rpartition(":")[0] for line in at] == ["healthcheck/reading.py"]


def test_subprocess_is_used_by_its_doors_alone():
    users = {
        relative(path)
        for path in FILES
        if product(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(name.name == "subprocess" for name in node.names)
    }
    assert users == PROCESSES


def test_programs_get_an_environment_of_ours():
    """Each start says env=…: what is inherited by default is the job's, or whoever runs us."""
    assert not found(
        lambda path, name, call: (
            name == "subprocess.Popen"
            and "env" not in {word.arg for word in call.keywords}
            and relative(path)
            in PROCESSES
            - {
                # Begun for the person at the terminal, as that person.
                "slurm_integration/commands/sandbox_run.py",
                "slurm_integration/sweep/transports/ssh/connection.py",
            }
        )
    )


def test_json_of_files_and_peers_goes_through_the_strict_reader():
    """msgspec raises RecursionError for nested text, also where a type is given."""
    at = found(lambda path, name, call: name == "msgspec.json.decode" and product(path))
    # The seats' answer comes through a pipe from our own fork.
    assert {line.partition(":")[0] for line in at} - {"slurm_integration/seats.py"} == {
        "healthcheck/strict_json.py"
    }


def test_only_one_module_hands_node_lists_to_clustershell():
    """ClusterShell pastes the name of a group into a shell command."""
    importers = [
        relative(path)
        for path in FILES
        if product(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ClusterShell")
    ]
    assert set(importers) == {"slurm_integration/sweep/nodeset.py"}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "slurm_integration").rglob("*.sh.j2")), ids=lambda p: p.name
)
def test_what_a_template_puts_into_a_script_is_quoted(path):
    """A prefix with a blank or a quote in it must not become words of a shell."""
    for line in path.read_text(encoding="utf-8").splitlines():
        code = line.partition("# ")[0]
        for inside in code.split("{{")[1:]:
            told = inside.partition("}}")[0].strip()
            fixed = told in ("entry", "consequence", "fail_job")
            assert fixed or told.endswith("|quote"), line
