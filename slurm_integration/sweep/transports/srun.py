"""Nodes that Slurm can allocate: one step over many nodes, started through Slurm's own tree."""

import os
import re
import threading
import time
from collections.abc import Sequence

from slurm_integration.scontrol import FOLDERS, environment
from slurm_integration.sweep.model import Answer
from slurm_integration.sweep.nodeset import fold
from slurm_integration.sweep.transports.base import Emit, Errand, Target, no_answer
from slurm_integration.sweep.transports.framing import read_answer, remote_argv
from slurm_integration.sweep.transports.labels import LabelledStreams
from slurm_integration.sweep.transports.process import Ended, follow

ALLOCATE_S = 30
"""Seconds Slurm has to give us idle nodes; longer means somebody else was faster."""
CANCEL_S = 5
"""Seconds that a controller has to take the job back."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/flightcheck/bin"
_LOST = re.compile(
    r"launch|connect|communicat|socket|respond|unreachable|timed out|resolve|zero bytes", re.I
)


class SrunTransport:
    """Nodes through srun. `program` is srun's absolute path, or "" to search Slurm's folders."""

    name = "srun"

    def __init__(self, errand: Errand, program: str = "") -> None:
        self._errand = errand
        self._program = program or find_srun()
        self.notes: list[str] = []

    def run(self, targets: Sequence[Target], emit: Emit, stop: threading.Event) -> None:
        """One srun for each partition and number of GPUs, all at the same time."""
        threads = [
            threading.Thread(target=self._step, args=(group, partition, emit, stop), daemon=True)
            for partition, group in groups(targets)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _step(
        self, group: tuple[Target, ...], partition: str, emit: Emit, stop: threading.Event
    ) -> None:
        started = time.monotonic()
        waiting = {target.node: target for target in group}
        streams = LabelledStreams(self._errand.nonce, self._errand.max_output)

        def deliver(node: str, output: bytes, errors: bytes) -> None:
            target = waiting.pop(node, None)
            if target is not None:
                seconds = time.monotonic() - started
                emit(read_answer(output, errors, self._errand, target, self.name, seconds))

        def on_output(chunk: bytes) -> bool:
            for node, output, errors in streams.output(chunk):
                deliver(node, output, errors)
            return True

        ended = ""
        try:
            follow(
                step_argv(self._program, group, partition, self._errand),
                {**environment(), **_chosen(), "PATH": _PATH},
                started + ALLOCATE_S + self._errand.timeout_s + 15,
                stop, on_output, streams.errors,
            )  # fmt: skip
        except Ended as end:
            ended = end.why
            self._cancel()
        except OSError as error:
            streams.errors(f"srun: error: {self._program or 'srun'}: {error}\n".encode())
        if ended == "stopped":
            return
        for node, output, errors in streams.rest():
            deliver(node, output, errors)
        for target in waiting.values():
            answer, detail = _missing(target.node, streams.messages, ended)
            seconds = time.monotonic() - started
            emit(no_answer(target, self.name, answer, detail, seconds))

    def _cancel(self) -> None:
        """srun was ended early: its allocation must not stay until its time limit."""
        program = self._program.removesuffix("srun") + "scancel"
        argv = [program, "--quiet", f"--name={_job_name(self._errand)}"]
        try:
            if not follow(
                argv, environment(), time.monotonic() + CANCEL_S, threading.Event(),
                lambda _: True, lambda _: None,
            ):  # fmt: skip
                return
        except (Ended, OSError):
            pass
        self.notes.append(
            f"the sweep's Slurm job could not be cancelled and holds its nodes until its time limit"
            f": scancel --name={_job_name(self._errand)}"
        )


def groups(targets: Sequence[Target]) -> list[tuple[str, tuple[Target, ...]]]:
    """(partition, targets): as few steps as there can be, largest partitions first. Pure."""
    left = list(targets)
    made = []
    while left:
        sizes: dict[str, int] = {}
        for target in left:
            for partition in target.partitions:
                sizes[partition] = sizes.get(partition, 0) + 1
        best = max(sizes, key=lambda name: sizes[name], default="")
        inside = [target for target in left if best in target.partitions or not best]
        left = [target for target in left if best and best not in target.partitions]
        for gpus, stage in sorted({(target.gpus, target.stage) for target in inside}):
            alike = tuple(t for t in inside if (t.gpus, t.stage) == (gpus, stage))
            made.append((best, alike))
    return made


def step_argv(program: str, group: Sequence[Target], partition: str, errand: Errand) -> list[str]:
    """srun's command line. Pure.

    Whole nodes with all their GPUs: where cgroups hide devices, a step without them would see no
    GPU and call a healthy node sick. `--label` cuts lines over 1 kB into labelled pieces, which
    LabelledStreams joins; without it the pieces of many tasks would mix.
    """
    minutes = max(1, round((errand.timeout_s + 90) / 60))
    return [
        program or "srun",
        f"--job-name={_job_name(errand)}",
        *([f"--partition={partition}"] if partition else []),
        f"--nodelist={fold(target.node for target in group)}",
        f"--nodes={len(group)}",
        f"--ntasks={len(group)}",
        "--ntasks-per-node=1",
        "--exclusive",
        "--mem=0",
        *([f"--gres=gpu:{group[0].gpus}"] if group[0].gpus else []),
        f"--immediate={ALLOCATE_S}",
        f"--time={minutes}",
        "--no-kill",
        "--kill-on-bad-exit=0",
        "--input=none",
        "--chdir=/",
        "--label",
        *remote_argv(errand, group[0].stage),
    ]


def _job_name(errand: Errand) -> str:
    return f"flightcheck-sweep-{errand.nonce}"


def _missing(node: str, messages: Sequence[str], ended: str) -> tuple[Answer, str]:
    """Why a node gave no answer, out of srun's own messages."""
    if ended == "time-out":
        return Answer.TIMED_OUT, "srun did not end in time"
    own = [text for text in messages if re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", text)]
    told = own or [text for text in messages if "error" in text] or list(messages)
    detail = told[-1] if told else "srun ended without this node's answer"
    lost = bool(own) and _LOST.search(detail) is not None
    return (Answer.UNREACHABLE if lost else Answer.REFUSED), detail


def _chosen() -> dict[str, str]:
    """What an administrator may choose for srun; all else of a surrounding job would mislead it."""
    names = ("SLURM_ACCOUNT", "SLURM_QOS", "SLURM_RESERVATION")
    return {name: os.environ[name] for name in names if name in os.environ}


def find_srun() -> str:
    """Slurm's srun in the usual folders; "" where there is none."""
    for folder in FOLDERS:
        if os.access(f"{folder}/srun", os.X_OK):
            return f"{folder}/srun"
    return ""
