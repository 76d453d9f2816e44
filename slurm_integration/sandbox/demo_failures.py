"""The demo's jobs that fail: one by its user's fault, one by a GPU that dies midway."""

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ClusterShell.NodeSet import NodeSet
from rich.markup import escape

from slurm_integration.sandbox.machine.files_gpu import LIBRARY_FOLDER
from slurm_integration.sandbox.machine.live import break_machine

if TYPE_CHECKING:
    from slurm_integration.sandbox.demo import Demo

FAULT = "xid-79"
LEFT_OUT = ("evidence", "how it was found", "files read")
"""Parts of the report that the demo leaves to `flightcheck report`."""
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name} --nodes=2 --ntasks-per-node=2 --gpus-per-node=8 {requeue}
export {env}
srun --kill-on-bad-exit=0 bash -c '
  export LD_LIBRARY_PATH={state}/nodes/$SLURMD_NODENAME/root/{library}
  exec {python} {job} {state}/store-$SLURM_JOB_ID-$SLURM_RESTART_COUNT'
"""


def why_not() -> str | None:
    """Why these acts cannot be played; None where they can."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not in this venv: `make torch` adds the demo's failing jobs"
    return None


def nan_in_one_rank(demo: "Demo") -> None:
    """A NaN on rank 2: the user's business, and no node is drained for it."""
    demo.say("[bold]sbatch[/] a torch.distributed job; rank 2 gets a NaN at iteration 3")
    job = _submit(demo, "nan", "--no-requeue --exclude=node02", "DEMO_NAN_RANK=2")
    demo.follow(job, ends=("FAILED",))
    report = _report(demo, job)
    if "user/nan" not in report:
        raise demo.error(f"the epilog should say user/nan, but says:\n{report}")
    if any(node.held and node.name != "node02" for node in demo.nodes()):
        raise demo.error("a NaN of the user must drain no node")


def gpu_lost_midway(demo: "Demo") -> None:
    """A GPU falls off the bus while a job trains: its node is drained, the job runs again."""
    demo.say("[bold]sbatch[/] another one; it trains on healthy nodes")
    job = _submit(
        demo, "pretrain", "--requeue --exclude=node02 --nodelist=node03", "DEMO_NAN_RANK=-1"
    )
    output = demo.state / f"job-{job}.out"
    demo.follow(job, until=lambda: output.exists() and "iteration    2" in output.read_text())
    dying = list(NodeSet(demo.job(job)[1]))[-1]
    break_machine(str(demo.root(dying)), FAULT)
    demo.say(f"midway, a GPU of [bold]{dying}[/] falls off the bus", mark="[red]✘[/]")
    demo.follow(job, passes=("FAILED",))
    report = _report(demo, job)
    if "hardware/gpu-off-bus" not in report:
        raise demo.error(f"the epilog should say hardware/gpu-off-bus, but says:\n{report}")
    if not demo.node(dying).ours:
        raise demo.error(f"{dying} should be drained by flightcheck, but is {demo.node(dying)}")


def _submit(demo: "Demo", name: str, requeue: str, env: str) -> int:
    script = SCRIPT.format(
        name=name,
        requeue=requeue,
        env=env,
        state=demo.state,
        library=LIBRARY_FOLDER,
        python=sys.executable,
        job=Path(__file__).with_name("training_job.py"),
    )
    return demo.submit(script=script)


def _report(demo: "Demo", job: int) -> str:
    """What the epilog of the job's first node found out, told in the demo."""
    for path in demo.state.glob(f"nodes/*/root/var/lib/flightcheck/**/{job}/report.txt"):
        text = path.read_text()
        shown = True
        for line in text.splitlines():
            if line and not line.startswith(" "):
                shown = line not in LEFT_OUT
            if shown:
                demo.console.print(f"           [dim]│[/] {escape(line)}")
        demo.console.print(f"           [dim]│ `flightcheck report {job}` shows all of it[/]")
        return text
    raise demo.error(f"no node has a report of job {job}")
