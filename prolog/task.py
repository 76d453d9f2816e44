"""`flightcheck-task-prolog`: the entry point that Slurm's TaskProlog calls before every task.

It runs as the job's user, in front of each of perhaps thousands of processes: standard library
only, no driver, no Slurm, no configuration file. slurmstepd reads its standard output: `export
NAME=value` sets the task's environment, `print TEXT` goes to the user's output. Everything else in
here comes from the environment of a job, so nothing is printed that could begin another line.
Whatever breaks, it exits 0: a task prolog that fails cancels the task.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

FOLDER = "/run/flightcheck"
"""Where prolog/verdict_file.py leaves its files."""
DEFAULTS: dict[str, Any] = {
    "flight_recorder": "gpu", "rank_map": "gpu", "buffer": 2000, "folder": "flightcheck-%j",
    "nan_check": False, "desync_debug": False, "tell": "job",
}  # fmt: skip
"""Those of TaskPrologSettings, which costs an import of msgspec."""
DUMP = "fr_"
"""Prefix of the dumps, to which PyTorch adds the rank."""
RANKS = "ranks"
MAX_FILE = 1 << 16
MAX_PATH = 1024
TOLD = "FLIGHTCHECK_TOLD"
"""Set for what comes after: this node's verdict is in the user's output already."""
_LAST_STEP = 0xFFFFFFF0
"""Step numbers from here on are no steps of srun: batch script, container, interactive shell."""

RECORDER = (
    (("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), "{buffer}"),
    (("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), "{dump}"),
    (("TORCH_NCCL_DUMP_ON_TIMEOUT",), "1"),
)
"""Names of PyTorch's variables, those of its newer releases first, and their value."""


def main() -> None:
    """Print what this task is given and told, leave its line in the rank map, exit 0."""
    try:
        lines = prepare(os.environ)
        sys.stdout.write("".join(line + "\n" for line in lines if safe(line)))
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - a bug of ours must cancel no task
        _complain(f"the task prolog broke: {type(error).__name__}; the task runs without it")
    os._exit(0)


def prepare(env: Mapping[str, str]) -> list[str]:
    """The lines for slurmstepd; on the way the folder and the rank map are made."""
    job = env.get("SLURM_JOB_ID", "")
    if not number(job):
        return []
    left = read_verdict(job, env.get("FLIGHTCHECK_ROOT", ""))
    settings = {**DEFAULTS, **left.get("settings", {})}
    armed = wanted(settings["flight_recorder"], env)
    mapped = wanted(settings["rank_map"], env) and step_of(env) is not None
    folder = folder_of(settings["folder"], job) if armed or mapped else None
    lines = []
    if armed:
        lines += arm(env, settings, folder)
    if mapped and folder is not None:
        write_place(env, folder, left.get("gpus", {}))
    return lines + tell(env, left, settings["tell"])


def read_verdict(job: str, root: str = "") -> dict[str, Any]:
    """What the prolog left for this job; {} where it left nothing that can be understood."""
    import json

    try:
        fd = os.open(f"{root}{FOLDER}/{job}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = json.loads(os.read(fd, MAX_FILE))
        finally:
            os.close(fd)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def wanted(when: str, env: Mapping[str, str]) -> bool:
    """Whether a part that is for jobs with GPUs (or all, or none) is for this one."""
    if when == "gpu":
        return any(
            env.get(name) not in (None, "", "NoDevFiles")
            for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES")
        )
    return when == "always"


def folder_of(pattern: str, job: str) -> str | None:
    """The job's folder, made where it is not there; None where that cannot be done.

    Relative to the task's working folder, where the epilog looks too.
    """
    path = os.path.join(os.getcwd(), pattern.replace("%j", job).replace("%J", job))
    if not safe(path) or len(path) > MAX_PATH:
        return None
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError:
        return None
    return path if os.access(path, os.W_OK) else None


def arm(env: Mapping[str, str], settings: Mapping[str, Any], folder: str | None) -> list[str]:
    """`export` lines for what the user has not set, under the old name or the new."""
    values = {"buffer": str(settings["buffer"]), "dump": folder and f"{folder}/{DUMP}"}
    chosen = list(RECORDER)
    if settings["nan_check"]:
        chosen.append((("TORCH_NCCL_NAN_CHECK",), "1"))
    if settings["desync_debug"]:
        chosen.append((("TORCH_NCCL_DESYNC_DEBUG",), "1"))
    lines = []
    for names, form in chosen:
        value = values.get(form.strip("{}"), form)
        # One name that the user has set speaks for both: ours under the other would win over it.
        if value is None or any(name in env for name in names):
            continue
        lines += [f"export {name}={value}" for name in names]
    return lines


def write_place(env: Mapping[str, str], folder: str, gpus: Mapping[str, str]) -> None:
    """Append this task's line to the rank map of its node: `ranks-RESTART-STEP-NODE.jsonl`.

    One short write at the end of the file: the tasks of a node do not cut into each other's.
    """
    import json

    node, step = env.get("SLURMD_NODENAME", ""), step_of(env)
    if not node.replace("-", "").replace(".", "").replace("_", "").isalnum() or step is None:
        return
    restart = env.get("SLURM_RESTART_COUNT", "0")
    name = f"{RANKS}-{restart if number(restart) else 0}-{step}-{node}.jsonl"
    data = json.dumps(place(env, gpus), separators=(",", ":")).encode() + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(f"{folder}/{name}", flags, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)
    except OSError:
        pass  # a full or foreign folder fails no task


def place(env: Mapping[str, str], gpus: Mapping[str, str]) -> dict[str, Any]:
    """Where this task runs, in the form of the epilog's RankPlace.

    `rank` where a task is a rank. A task with several GPUs of its own is a launcher (torchrun),
    whose processes get their ranks later: it is told as `label`, which names the node alone.
    """
    local = _int(env.get("SLURM_LOCALID"))
    told: dict[str, Any] = {
        "host": env.get("SLURMD_NODENAME", ""),
        "local_rank": local,
        "pid": _int(env.get("SLURM_TASK_PID")),
        "tasks": _int(env.get("SLURM_NTASKS")),
    }
    rank = _int(env.get("SLURM_PROCID"))
    visible = [word for word in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    if len(visible) > max(1, tasks_here(env)):
        return {"label": rank, **told}
    return {"rank": rank, **told, "gpu_uuid": gpu_of(env, visible, local, gpus)}


def gpu_of(
    env: Mapping[str, str], visible: list[str], local: int | None, gpus: Mapping[str, str]
) -> str | None:
    """UUID of the GPU that a task uses by convention; None where that is not certain."""
    given = minors(env.get("SLURM_STEP_GPUS") or env.get("SLURM_JOB_GPUS") or "")
    if len(visible) == 1:
        word = visible[0]
        if word.startswith(("GPU-", "MIG-")):
            return word if safe(word) and len(word) < 128 else None
        # "0" alone is the first of the task's cgroup, any other number the node's own.
        minor = given[0] if len(given) == 1 else word if word != "0" and word in given else None
        return gpus.get(minor) if minor is not None else None
    if local is None or len(visible) != len(given) or local >= len(given):
        return None
    word = visible[local]
    return word if word.startswith("GPU-") and safe(word) else gpus.get(given[local])


def minors(text: str) -> list[str]:
    """`0,1,4-7` → ["0", "1", "4", "5", "6", "7"]; [] for what is no such list."""
    found: list[int] = []
    for part in text[:4096].split(","):
        low, dash, high = part.partition("-")
        if not number(low) or (dash and not number(high)):
            return []
        last = int(high) if dash else int(low)
        if not int(low) <= last < 1024:
            return []
        found += range(int(low), last + 1)
    return [str(minor) for minor in sorted({*found})]


def tasks_here(env: Mapping[str, str]) -> int:
    """How many tasks the step has on this node; 1 where that cannot be told.

    SLURM_STEP_TASKS_PER_NODE is `4(x2),3`: counts of the nodes in order, repeated.
    """
    index = _int(env.get("SLURM_NODEID")) or 0
    text = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE") or ""
    for part in text[:MAX_FILE].split(","):
        count, _, times = part.partition("(x")
        times = times.rstrip(")") or "1"
        if not number(count) or not number(times):
            return 1
        if index < int(times):
            return int(count)
        index -= int(times)
    return 1


def tell(env: Mapping[str, str], left: Mapping[str, Any], how: str) -> list[str]:
    """The `print` line, from the first task of a node and once in a job's life on it."""
    line, node = left.get("line"), str(left.get("node", ""))
    if how == "off" or not isinstance(line, str) or not line or not safe(node):
        return []
    step = step_of(env)
    if env.get("SLURM_LOCALID", "0") != "0" or step not in (None, 0) or env.get(TOLD) == node:
        return []
    first = env.get("SLURM_NODEID", "0") == "0"
    if how == "job" and not first and left.get("verdict") == "go":
        return []
    said = [f"print flightcheck: {line}"]
    return [*said, f"export {TOLD}={node}"] if step is None else said


def step_of(env: Mapping[str, str]) -> int | None:
    """The number of srun's step; None in the batch script and the like."""
    step = _int(env.get("SLURM_STEP_ID") or env.get("SLURM_STEPID"))
    return step if step is not None and step < _LAST_STEP else None


def safe(text: str) -> bool:
    """Whether a line stays one line, and writes to nobody's terminal but what one reads."""
    return text.isprintable() and len(text) <= MAX_PATH + 64


def number(text: str) -> bool:
    """Whether this is a plain number of a sane length."""
    return text.isascii() and text.isdigit() and len(text) <= 12


def _int(text: str | None) -> int | None:
    return int(text) if text and number(text) else None


def _complain(text: str) -> None:
    try:
        sys.stderr.write(f"flightcheck: {text}\n")
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - not even standard error is there
        pass


if __name__ == "__main__":
    main()
