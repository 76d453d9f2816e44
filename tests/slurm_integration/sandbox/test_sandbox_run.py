"""`flightcheck sandbox` as a user calls it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from slurm_integration.commands.sandbox import command
from slurm_integration.commands.sandbox_run import Command, execute
from slurm_integration.sandbox.cluster import why_not
from slurm_integration.sandbox.faults.registry import load_faults
from slurm_integration.sandbox.machine.live import build_machine

MAIN = "from healthcheck.cli import main; main()"
SEEN = """
import json, os, pynvml
pynvml.nvmlInit()
print(json.dumps({"root": os.environ["FLIGHTCHECK_ROOT"], "gpus": pynvml.nvmlDeviceGetCount(),
                  "config": os.environ["FLIGHTCHECK_CONFIG"]}))
raise SystemExit(7)
"""


def flightcheck(*argv, **more):
    return subprocess.run(
        [sys.executable, "-c", MAIN, *argv], capture_output=True, text=True, timeout=240, **more
    )


def sandbox_run(*argv, **more):
    return flightcheck("sandbox", "run", *argv, **more)


def test_a_command_sees_the_machine_and_its_exit_code_is_handed_on():
    done = sandbox_run("--type", "h100-nvl", "--", sys.executable, "-c", SEEN)

    assert done.returncode == 7, done.stderr
    told = json.loads(done.stdout)
    assert told["gpus"] == 2
    assert told["config"].startswith(told["root"])
    assert not os.path.exists(told["root"])


@pytest.mark.parametrize(
    ("faults", "code", "verdict"),
    [((), 0, "go"), (("ecc-lifetime-only",), 0, "go"), (("row-remap-pending",), 1, "degraded"),
     (("xid-79:1",), 2, "no-go"), (("ecc-lifetime-only", "disk-full"), 2, "no-go")],
)  # fmt: skip
def test_the_check_command_judges_the_broken_machine(faults, code, verdict):
    options = [word for fault in faults for word in ("--break", fault)]
    check = ["-c", MAIN, "check", "--stage", "prolog", "--json"]

    done = sandbox_run("--type", "h100-nvl", *options, "--", sys.executable, *check)

    assert done.returncode == code, done.stderr
    report = json.loads(done.stdout)
    assert (report["verdict"], report["profile"], report["node"]) == (verdict, "h100-nvl", "node01")


def test_a_folder_of_its_own_stays_and_is_used_again(tmp_path):
    folder = str(tmp_path / "machine")
    options = ("--type", "h100-nvl", "--dir", folder, "--node", "gpu42")
    first = sandbox_run(*options, "--break", "gpu-missing", "--", "true")
    count = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"

    again = sandbox_run(*options, "--", sys.executable, "-c", count)
    other = sandbox_run("--type", "h100-sxm", "--dir", folder, "--", "true")

    assert (first.returncode, again.stdout.strip()) == (0, "1")
    assert (tmp_path / "machine/etc/hostname").read_text() == "gpu42\n"
    assert other.returncode == 64
    assert "of type h100-nvl" in other.stderr


def test_a_site_configuration_given_by_the_user_wins(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text("dry_run = true\n")
    code = "import os; print(os.environ['FLIGHTCHECK_CONFIG'])"

    done = sandbox_run("--type", "cpu-only", "--", sys.executable, "-c", code,
                       env={**os.environ, "FLIGHTCHECK_CONFIG": str(mine)})  # fmt: skip

    assert done.stdout.strip() == str(mine)


@pytest.mark.parametrize(
    ("argv", "told"),
    [(("--type", "vax", "--", "true"), "no node type"),
     (("--type", "cpu-only", "--break", "xid-79", "--", "true"), "cpu-only has no gpu"),
     (("--break", "xid-7", "--", "true"), "did you mean"),
     ((), "COMMAND")],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_the_exit_code_of_a_usage_error(argv, told):
    done = sandbox_run(*argv)

    assert done.returncode == 64
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_that_does_not_exist_ends_as_a_shell_would_say(tmp_path, capsys):
    build_machine(str(tmp_path / "m"), "cpu-only", "n")

    assert execute(str(tmp_path / "m"), ["no-such-command-here"], Command()) == 127
    assert "not found" in capsys.readouterr().err


def test_a_command_that_dies_of_a_signal_ends_as_a_shell_would_say(tmp_path):
    build_machine(str(tmp_path / "m"), "cpu-only", "n")

    assert (
        execute(str(tmp_path / "m"), ["sh", "-c", "kill -9 $$"], Command()) == 128 + signal.SIGKILL
    )


def test_ending_the_sandbox_ends_the_command_and_removes_the_machine(tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "sandbox", "run", "--type", "cpu-only", "--", "sh", "-c",
         "echo started; exec sleep 300"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert process.stdout.readline() == "started\n"

    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=240) == 128 + signal.SIGTERM
    process.stdout.close()
    assert list(temporary.iterdir()) == []


def test_ending_the_sandbox_at_any_moment_leaves_no_machine_and_no_command(tmp_path):
    temporary, mark = tmp_path / "tmp", tmp_path / "pids"
    temporary.mkdir()
    mark.touch()
    for wait_s in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "sandbox", "run", "--type", "cpu-only", "--", "sh", "-c",
             f"echo $$ >> {mark}; exec sleep 300"],
            env={**os.environ, "TMPDIR": str(temporary)},
        )  # fmt: skip
        time.sleep(wait_s)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=240)
        # Before the first line of ours runs, the signal ends the interpreter itself.
        assert code in (128 + signal.SIGTERM, -signal.SIGTERM)
        assert list(temporary.iterdir()) == []
    assert not [pid for pid in mark.read_text().split() if alive(int(pid))]


def test_a_hung_driver_leaves_no_process_behind():
    code = (
        "import os, sys; pid = os.fork()\nif not pid:\n import pynvml as n\n n.nvmlInit()\n"
        " n.nvmlDeviceGetTemperature(n.nvmlDeviceGetHandleByIndex(1), 0)\n os._exit(0)\nprint(pid)"
    )

    done = sandbox_run(
        "--type", "h100-nvl", "--break", "nvml-hang:1", "--", sys.executable, "-c", code
    )

    pid = int(done.stdout)
    until = time.monotonic() + 240
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(pid)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_list_of_faults_tells_what_must_be_found():
    table = CliRunner().invoke(command, ["faults"]).output
    listed = json.loads(CliRunner().invoke(command, ["faults", "--json"]).output)

    assert {row["name"] for row in listed} == set(load_faults())
    assert all(row["name"] in table for row in listed)
    by_name = {row["name"]: row for row in listed}
    assert by_name["xid-79"]["check"] == "xid"
    assert (by_name["xid-79"]["verdict"], by_name["xid-79"]["action"]) == ("no-go", "reboot")
    assert (by_name["idle-gen1"]["verdict"], by_name["idle-gen1"]["check"]) == ("go", None)
    assert table.index("must pass") > table.index("no-go")


def test_the_list_can_be_narrowed_to_a_type():
    listed = json.loads(
        CliRunner().invoke(command, ["faults", "--type", "cpu-only", "--json"]).output
    )
    refused = CliRunner().invoke(command, ["faults", "--type", "vax"])

    assert "disk-full" in {row["name"] for row in listed}
    assert "xid-79" not in {row["name"] for row in listed}
    assert refused.exit_code != 0
    assert "no node type" in refused.output


@pytest.fixture
def short_folder():
    # Slurm's sockets lie below it, and their names are bounded.
    import tempfile

    folder = tempfile.mkdtemp(prefix="fc-")
    yield folder
    CliRunner().invoke(command, ["down", "--remove", "--dir", folder])
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slurm
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_cluster_is_started_broken_healed_and_ended(short_folder):
    def sandbox(*argv):
        done = CliRunner().invoke(command, [*argv, "--dir", short_folder])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    up = sandbox("up", "--nodes", "2", "--type", "h100-nvl")
    assert up.exit_code == 0, up.output
    assert f"SLURM_CONF={short_folder}/etc/slurm.conf" in up.output

    broken = sandbox("break", "node02", "xid-79:1")
    assert "to be found: xid: verdict no-go, action reboot" in broken.output
    assert "xid-79:1" in sandbox("status").output

    wrong = sandbox("break", "node09", "xid-79")
    assert wrong.exit_code != 0
    assert "no simulated machine" in wrong.output

    assert "mended xid-79:1" in sandbox("heal", "node02").output
    assert "xid-79" not in sandbox("status").output
    assert sandbox("down", "--remove").output.startswith("ended")
    assert "no sandbox in" in sandbox("status").output
    assert not os.path.exists(short_folder)


def test_a_node_name_cannot_lead_out_of_the_folder():
    done = CliRunner().invoke(command, ["heal", "../../etc"])

    assert done.exit_code != 0
    assert "expected a node's name" in done.output
