"""flightcheck as it is found on a simulated node: by srun's steps and by ssh sessions alike."""

import shlex
import sys
from pathlib import Path

from slurm_integration.sandbox.machine.files_gpu import LIBRARY_FOLDER

_SCRIPT = """\
#!/bin/sh
# slurmd and the sandbox's sshds both say which node this is.
root={state}/nodes/$SLURMD_NODENAME/root
export FLIGHTCHECK_ROOT="$root" LD_LIBRARY_PATH="$root/{library}"
exec {program} "$@"
"""


def write_program(state: Path) -> Path:
    """Write `bin/flightcheck` below a sandbox's folder: our command on whichever node runs it."""
    path = state / "bin/flightcheck"
    path.parent.mkdir(parents=True, exist_ok=True)
    program = Path(sys.executable).with_name("flightcheck")
    path.write_text(
        _SCRIPT.format(
            state=shlex.quote(str(state)), library=LIBRARY_FOLDER, program=shlex.quote(str(program))
        )
    )
    path.chmod(0o755)
    return path
