"""Looking at a simulated machine with the real runner."""

from healthcheck.config import Config
from healthcheck.host import RecordedHost
from healthcheck.model import Job
from healthcheck.runner import Request, Result, run
from slurm_integration.sandbox.machine.description import Machine
from slurm_integration.sandbox.machine.files_system import settings_of


def look(
    root: str, machine: Machine, stage: str, *, config: Config | None = None, job: Job | None = None
) -> Result:
    """Judge the machine in `root` at a stage, with its own site's settings or with `config`."""
    return run(Request(RecordedHost(root), stage, config or settings_of(machine), job=job))
