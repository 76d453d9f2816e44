"""Agents as processes: with a made-up measurement (run as a script), or the command itself."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import slurm_integration

SOURCE = Path(slurm_integration.__file__).parents[1]
COMMAND = (
    "import sys; from slurm_integration.commands.allreduce_nodes import command; "
    "sys.exit(command.main(sys.argv[1:], standalone_mode=False))"
)


def step_environment(index: int, addresses: list[str], step: int = 0) -> dict[str, str]:
    """What srun gives a task of the node with this number."""
    names = [f"node{number:02d}" for number in range(1, len(addresses) + 1)]
    aliases = (f"{name}:[{address}]:{name}" for name, address in zip(names, addresses, strict=True))
    return {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": str(step),
        "SLURM_STEP_NUM_NODES": str(len(addresses)),
        "SLURM_STEP_NODELIST": f"node[01-{len(addresses):02d}]",
        "SLURM_NODEID": str(index),
        "SLURM_PROCID": str(index),
        "SLURM_LOCALID": "0",
        "SLURM_NODE_ALIASES": ",".join(aliases),
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "PYTHONPATH": str(SOURCE),
    }


def start(argv: list[str], env: dict[str, str]) -> "subprocess.Popen[str]":
    """A task, whose output is kept apart from its complaints."""
    return subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        text=True, start_new_session=True,
    )  # fmt: skip


def _main() -> int:
    """An agent with a made-up measurement: `agents.py '{"folder": …, "slow": […], …}'`."""
    from slurm_integration.allreduce_nodes.model import NodeResult, Rule
    from slurm_integration.allreduce_nodes.order import Order
    from slurm_integration.allreduce_nodes.session import Terms, take_part
    from slurm_integration.allreduce_nodes.step import read_step

    plan: dict[str, Any] = json.loads(sys.argv[1])
    step = read_step(os.environ)

    class Work:
        """Meets its partners in a folder, and is as fast as the plan says."""

        local = 1
        backend = plan.get("backends", {}).get(step.name, "gloo")
        trouble = plan.get("trouble", {}).get(step.name, "")

        def warm(self) -> None:
            pass

        def measure(self, order: Order) -> NodeResult:
            if step.name in plan.get("dies", []):
                os._exit(9)
            if step.name in plan.get("hangs", []):
                time.sleep(600)
            mark = Path(plan["folder"], f"{order.id}.{step.name}")
            mark.touch()
            until = time.monotonic() + min(order.seconds, 5)
            while len(found := list(mark.parent.glob(f"{order.id}.*"))) < order.ranks:
                if time.monotonic() > until:
                    return NodeResult(order.id, "hung", "somebody is missing")
                time.sleep(0.01)
            group = {path.suffix[1:] for path in found}
            if group & {*plan.get("corrupt", [])}:
                return NodeResult(order.id, "corrupt", "wrong bits")
            slow = group & {*plan.get("slow", [])} or group.issuperset(plan.get("link", ["-"]))
            return NodeResult(order.id, "ok", busbw_gb_s=10.0 if slow else 48.0)

        def close(self) -> None:
            pass

    if step.name in plan.get("late", []):
        time.sleep(600)
    rule = Rule(plan.get("expect"))
    deadline = time.monotonic() + plan.get("limit", 120)
    terms = Terms(deadline, plan.get("join", 30.0), rule, plan.get("localise", "auto"), True)
    return take_part(step, Work(), terms)


if __name__ == "__main__":
    sys.exit(_main())
