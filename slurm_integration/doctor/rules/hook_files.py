"""The files that Slurm runs on a node: there, runnable, and root's alone."""

import re
from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts, Hook, Script
from slurm_integration.doctor.registry import about_slurm, advice, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf

AS_ROOT = ("Prolog", "Epilog", "HealthCheckProgram")
_FATAL = {
    "Prolog": "every job's prolog fails: nodes are drained one after the other",
    "Epilog": "every job's epilog fails: nodes are drained one after the other",
    "TaskProlog": "every task is cancelled",
    "HealthCheckProgram": "nothing looks at nodes between jobs",
}


def _each(facts: Facts) -> Iterator[tuple[Hook, Script]]:
    for hook in facts.hooks:
        for script in hook.scripts:
            yield hook, script


@about_slurm("empty-glob")
def empty_glob(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """A pattern such as Prolog=/etc/slurm/prolog.d/* finds scripts."""
    for hook in facts.hooks:
        if hook.globbed and not hook.scripts and facts.is_node:
            yield wrong(
                hook.pattern, f"{hook.name}={hook.pattern} matches no file",
                f"Slurm takes that for a failure: {_FATAL[hook.name]}",
                f"put a script there, or take the {hook.name} line out of slurm.conf",
            )  # fmt: skip


@about_slurm("hook-missing")
def hook_missing(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Each script that slurm.conf names is there."""
    for hook, script in _each(facts):
        if script.problem and facts.is_node:
            yield wrong(
                script.path, f"{hook.name}: {script.problem}", _FATAL[hook.name],
                "flightcheck install, then the lines that it prints",
            )  # fmt: skip


@about_slurm("hook-not-executable")
def hook_not_executable(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Each script may be executed."""
    for hook, script in _each(facts):
        if not script.problem and not script.mode & 0o111:
            yield wrong(
                script.path, f"{hook.name}: not executable (mode {script.mode:04o})",
                _FATAL[hook.name], f"chmod 755 {script.path}",
            )  # fmt: skip


@about_slurm("hook-interpreter")
def hook_interpreter(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Each script begins with `#!` and an interpreter that is there."""
    for hook, script in _each(facts):
        if script.problem or script.binary:
            continue
        if not script.first_line.startswith("#!"):
            yield wrong(
                script.path, f"{hook.name}: no #! in its first line",
                f"the kernel refuses to run it (exec format error): {_FATAL[hook.name]}",
                f"let {script.path} begin with #!/bin/sh",
            )  # fmt: skip
        elif script.interpreter_missing:
            yield wrong(
                script.path, f"{hook.name}: its interpreter {script.interpreter_missing!r} is not "
                "there", _FATAL[hook.name], _mend_interpreter(script),
            )  # fmt: skip


def _mend_interpreter(script: Script) -> str:
    if script.interpreter_missing.endswith("\r"):
        return f"sed -i 's/\\r$//' {script.path}  # its lines end as on Windows"
    return f"mend the first line of {script.path}"


@about_slurm("hook-owner")
def hook_owner(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Nobody but root can change what root runs."""
    for hook, script in _each(facts):
        if hook.name in AS_ROOT and script.loose:
            yield wrong(
                script.path, f"{hook.name}: {'; '.join(script.loose)}",
                "whoever can change it is root on every node with the next job",
                f"chown root:root and chmod go-w for {_paths(script.loose)}",
            )  # fmt: skip


def _paths(loose: tuple[str, ...]) -> str:
    return " ".join(re.sub(r" (is|belongs) .*", "", one) for one in loose)


@about_slurm("task-prolog-readable")
def task_prolog_readable(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Users may run the task prolog: it runs as the job's user."""
    for hook in facts.named("TaskProlog"):
        for script in hook.scripts:
            if script.closed:
                yield wrong(
                    script.path, f"TaskProlog: {'; '.join(script.closed)}",
                    "it runs as the job's user, and every task of a user who can't is cancelled",
                    f"chmod go+rx {_paths(script.closed)}",
                )  # fmt: skip


@about_slurm("hook-home")
def hook_home(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """A wrapper of ours sets HOME, which slurmd does not."""
    for hook, script in _each(facts):
        if hook.name in AS_ROOT and script.programs and "HOME" not in script.sets:
            yield advice(
                script.path, f"{hook.name}: HOME is not set",
                "without it Python asks the user database, which waits where LDAP or sssd hangs",
                f"HOME=/root; export HOME in {script.path}, or use the wrapper of "
                "flightcheck install",
            )  # fmt: skip


@about_slurm("hook-program")
def hook_program(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """The flightcheck that a script calls is there."""
    for hook, script in _each(facts):
        for program in script.programs:
            if program.runs or not facts.is_node:
                continue
            bare = "/" not in program.written
            yield wrong(
                script.path, f"{hook.name} calls {program.written}, which is "
                + ("not in its PATH" if bare else "not there or not executable"),
                "the look at the node does not happen, and a script that ends with this command "
                "fails: the node is drained with a reason of Slurm's",
                f"write the whole path of {program.name} in {script.path}"
                if bare else "install flightcheck there, or mend the path",
            )  # fmt: skip
