"""`flightcheck allreduce --nodes LIST`: the same from outside, as an exclusive job of srun's."""

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import NoReturn

from slurm_integration.allreduce_nodes.step import SECRET
from slurm_integration.scontrol import Scontrol
from slurm_integration.sweep.nodeset import expand, fold
from slurm_integration.sweep.slurm import read_known

WAIT_S = 30
"""For nodes to be allocated."""
FOREIGN = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "PMI", "NCCL_")


def srun_argv(
    nodes: Sequence[str], gpus: int, program: Sequence[str], extra: Sequence[str], limit_s: float,
    *, inside: bool,
) -> list[str]:  # fmt: skip
    """The command line. `inside` an allocation already, only a step is asked for. Pure.

    --wait counts from the first task's end, which on a broken node is its start: less than the
    limit of a run would end one that still localises.
    """
    argv = [
        "srun", f"--nodes={len(nodes)}", f"--nodelist={fold(nodes)}", f"--ntasks={len(nodes)}",
        "--ntasks-per-node=1", "--exclusive", "--kill-on-bad-exit=0", f"--wait={int(limit_s)}",
        f"--time={int(limit_s // 60) + 2}", "--job-name=flightcheck",
    ]  # fmt: skip
    if not inside:
        # Nodes that are busy or drained would keep it in the queue for ever.
        argv += [f"--immediate={WAIT_S}", "--mem=0"]
    if gpus and not any(word.startswith(("--gpus", "--gres", "-G")) for word in extra):
        argv.append(f"--gres=gpu:{gpus}")
    return [*argv, *extra, *program]


def launch(
    nodelist: str, program: Sequence[str], extra: Sequence[str], limit_s: float,
    environment: Mapping[str, str],
) -> NoReturn:  # fmt: skip
    """Become srun. Raises SweepError for a bad node list, OSError where there is no srun."""
    nodes = expand(nodelist, "--nodes")
    inside = bool(environment.get("SLURM_JOB_ID"))
    known = read_known(Scontrol().show_nodes(fold(nodes)).stdout).gpus
    counts = {known.get(name, 0) for name in nodes}
    argv = srun_argv(
        nodes, counts.pop() if len(counts) == 1 else 0, program, extra, limit_s, inside=inside
    )
    kept = dict(environment)
    if not inside:
        kept = {name: value for name, value in kept.items() if not name.startswith(FOREIGN)}
        kept |= {"SLURM_CONF": environment["SLURM_CONF"]} if "SLURM_CONF" in environment else {}
    # A user of the same nodes must not be able to sit down at the table.
    kept[SECRET] = secrets.token_hex(16)
    os.execvpe(argv[0], argv, kept)  # noqa: S606 - a list, no shell
