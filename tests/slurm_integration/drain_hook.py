"""A prolog for the sandbox's tests: nothing but a sick mark and the drain policy.

argv: the state folder. nodes/NODE/sick makes the node fail; nodes/NODE/wait holds the prolog
until it is gone. Settings are in drain.json, what was decided goes to nodes/NODE/decisions.
"""

import os
import sys
import time
from pathlib import Path

import msgspec

from healthcheck.config import DrainSettings
from slurm_integration.drain import drain_node
from slurm_integration.job_env import read_job


def main() -> int:
    state = Path(sys.argv[1])
    job = read_job(os.environ)
    assert job is not None
    assert job.node_name is not None
    folder = state / "nodes" / job.node_name
    (folder / "job.json").write_bytes(msgspec.json.encode(job))
    while (folder / "wait").exists():
        time.sleep(0.02)
    if not (folder / "sick").exists():
        return 0
    chosen = msgspec.json.decode((state / "drain.json").read_bytes())
    dry_run = chosen.pop("dry_run")
    settings = msgspec.convert(chosen, DrainSettings)
    decision = drain_node(
        (folder / "sick").read_text(),
        settings,
        job.node_name,
        job.job_id,
        time.monotonic() + 8,
        dry_run=dry_run,
    )
    with open(folder / "decisions", "ab") as log:
        log.write(msgspec.json.encode(decision) + b"\n")
    print(decision.message)
    return 1 if decision.fail_job else 0


if __name__ == "__main__":
    sys.exit(main())
