"""Law 1: a healthy node's prolog makes no Slurm call, opens no connection, starts no program."""

import json
import subprocess
import sys

FORBIDDEN = {
    "torch", "paramiko", "jinja2", "subprocess", "ClusterShell", "rich", "click", "logging",
    "asyncio", "importlib.metadata", "slurm_integration.drain", "slurm_integration.scontrol",
}  # fmt: skip
LISTING = """
import json, os, sys
real = os._exit
def leave(code):
    with open(os.environ["LISTING"], "a") as file:
        file.write(json.dumps([os.getpid(), code, sorted(sys.modules)]) + "\\n")
    real(code)
os._exit = leave
"""


def test_no_process_of_a_healthy_prolog_imports_what_it_does_not_need(h100, job, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(LISTING)
    listing = tmp_path / "listing"
    done = h100.run("flightcheck-prolog", PYTHONPATH=str(tmp_path), LISTING=str(listing), **job)
    assert done.returncode == 0, done.stderr
    processes = [json.loads(line) for line in listing.read_text().splitlines()]
    assert len(processes) > 5, "the prolog and its probes"
    for _, code, modules in processes:
        assert code == 0
        assert not FORBIDDEN & set(modules)
    assert sum("pynvml" in modules for _, _, modules in processes) == 1


def test_a_healthy_prolog_starts_no_program_and_opens_no_connection(h100, job, tmp_path):
    """Seen by Python's own audit hooks, which every process of the prolog inherits."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "def hook(event, args):\n"
        "    if event in ('subprocess.Popen', 'os.exec', 'os.posix_spawn', 'os.system')"
        " or event.startswith('socket.'):\n"
        "        with open(sys.argv[0] and __import__('os').environ['AUDIT'], 'a') as file:\n"
        "            file.write(event + '\\n')\n"
        "sys.addaudithook(hook)\n"
    )
    audit = tmp_path / "audit"
    done = h100.run("flightcheck-prolog", PYTHONPATH=str(tmp_path), AUDIT=str(audit), **job)
    assert done.returncode == 0, done.stderr
    assert not audit.exists(), audit.read_text()


def test_strace_sees_no_exec_and_no_connect(h100, job, tmp_path):
    trace = tmp_path / "trace"
    subprocess.run(
        ["strace", "-f", "-e", "trace=execve,connect", "-o", str(trace),
         sys.executable, "-m", "prolog.main"],
        # Without HOME the interpreter itself asks the user database, which may be a network
        # service; the hook that slurmd calls sets it.
        env=h100.environment(HOME="/root", **job), check=True, capture_output=True,
    )  # fmt: skip
    executed = [line for line in trace.read_text().splitlines() if "execve(" in line]
    assert len(executed) == 1
    assert "connect(" not in trace.read_text()
