"""What slurmd really hands to a hook of root's, for a job whose user tries all doors at once."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from slurm_integration.sandbox import cluster

pytestmark = pytest.mark.slurm
EVIL = {
    "PYTHONPATH": "/home/evil",
    "PYTHONSTARTUP": "/home/evil/x.py",
    "LD_PRELOAD": "/home/evil/x.so",
    "LD_LIBRARY_PATH": "/home/evil",
    "FLIGHTCHECK_ROOT": "/home/evil",
    "BASH_ENV": "/home/evil/rc",
    "FLIGHTCHECK_CONFIG": "/home/evil/f.toml",
    "PATH": "/home/evil:/usr/bin:/bin",
    "ENV": "/home/evil/rc",
    "SLURM_CONF_EVIL": "/home/evil",
    "TMPDIR": "/home/evil",
    "SPANK_EVIL": "/home/evil",
    "SLURM_SPANK_EVIL": "/home/evil",
}
DUMP = """#!/bin/sh
tr '\\0' '\\n' </proc/$$/environ >{folder}/$SLURM_SCRIPT_CONTEXT.part
pwd >{folder}/pwd.$SLURM_SCRIPT_CONTEXT
mv {folder}/$SLURM_SCRIPT_CONTEXT.part {folder}/$SLURM_SCRIPT_CONTEXT
exit 0
"""


@pytest.fixture(scope="module")
def told():
    reason = cluster.why_not()
    if reason:
        pytest.skip(reason)
    state = tempfile.mkdtemp(prefix="fc-hooks-", dir="/tmp")
    Path(state).chmod(0o755)
    script = Path(state) / "dump.sh"
    script.write_text(DUMP.format(folder=state))
    script.chmod(0o755)
    try:
        cluster.up(
            cluster.ClusterSpec(state, nodes=1, prolog=(str(script),), epilog=(str(script),))
        )
        done = cluster.client(
            state,
            "env",
            *(f"{n}={v}" for n, v in EVIL.items()),
            f"SLURM_CONF={state}/etc/slurm.conf",
            "/usr/bin/srun",
            "--export=ALL",
            "--comment=$(touch /tmp/owned)",
            "-J",
            "a\nb;`id`",
            "-D",
            "/tmp",
            "/bin/true",
        )
        assert done.returncode == 0, done.stderr
        until = time.monotonic() + 60
        while not (Path(state) / "epilog_slurmd").exists() and time.monotonic() < until:
            time.sleep(0.05)
        yield Path(state)
    finally:
        cluster.down(state)
        shutil.rmtree(state, ignore_errors=True)


@pytest.mark.parametrize("context", ["prolog_slurmd", "epilog_slurmd"])
def test_no_variable_of_the_users_reaches_a_hook_of_roots(told, context):
    env = dict(line.partition("=")[::2] for line in (told / context).read_text().splitlines())
    assert env["SLURM_SCRIPT_CONTEXT"] == context
    theirs = {name: value for name, value in env.items() if "/home/evil" in value}
    assert theirs == {}
    assert env["SLURM_JOB_ID"] != "0"
    assert not [name for name in env if name.startswith(("PYTHON", "LD_", "BASH_ENV", "ENV"))]


def test_nothing_of_the_users_text_was_run(told):
    assert not os.path.exists("/tmp/owned")


@pytest.mark.parametrize("context", ["prolog_slurmd", "epilog_slurmd"])
def test_a_hook_is_not_started_in_the_jobs_folder(told, context):
    assert (told / f"pwd.{context}").read_text().strip() != "/tmp"
