"""Facts of a cluster in which nothing is wrong, to be spoilt in one place."""

from pathlib import Path

import msgspec

from healthcheck.config import Config
from slurm_integration.doctor.model import (
    Complaint,
    Facts,
    Folder,
    Hook,
    Installation,
    Interpreter,
    Program,
    Script,
    Settings,
)
from slurm_integration.doctor.registry import examine
from slurm_integration.doctor.slurm_conf import SlurmConf, parse_shown

SHOWN = (Path(__file__).parent / "show-config-22.05.txt").read_text()
HOME = "/etc/slurm/flightcheck"


def slurm(**values: str) -> SlurmConf:
    """The recorded configuration with other values; an empty one means that it is not set."""
    good = parse_shown(SHOWN)
    changed = {name.lower(): (value,) if value else () for name, value in values.items()}
    return msgspec.structs.replace(good, values={**good.values, **changed})


def script(name: str, program: str, **changed: object) -> Script:
    path = f"/opt/flightcheck/bin/{program}"
    good = Script(
        f"{HOME}/{name}.sh", mode=0o755, first_line="#!/bin/sh", sets=frozenset({"PATH", "HOME"}),
        programs=(Program(program, path, path, True),),
    )  # fmt: skip
    return msgspec.structs.replace(good, **changed)


def hook(name: str, *scripts: Script, pattern: str = "", globbed: bool = False) -> Hook:
    return Hook(name, pattern or (scripts[0].path if scripts else ""), globbed, scripts)


HOOKS = {
    "Prolog": script("prolog", "flightcheck-prolog"),
    "Epilog": script("epilog", "flightcheck-epilog"),
    "TaskProlog": script("task-prolog", "flightcheck-task-prolog", sets=frozenset()),
    "HealthCheckProgram": script("health", "flightcheck-health"),
}


def facts(**changed: object) -> Facts:
    """A good node's facts with what a test changes."""
    good = Facts(
        node="node01",
        now=1796107283.0,
        settings=Settings("/etc/flightcheck/flightcheck.toml", Config(dry_run=False), 30.0, None),
        slurm=slurm(),
        is_node=True,
        hooks=tuple(hook(name, one) for name, one in HOOKS.items()),
        installations=(Installation("/opt/flightcheck", "0.1.0", ("this command",)),),
        interpreter=Interpreter("/opt/flightcheck/bin/python3", 0.02, modules=400),
        folders=(Folder("state_dir", "/var/lib/flightcheck", True, mode=0o700),),
    )
    return msgspec.structs.replace(good, **changed)


def spoilt_hook(name: str, **changed: object) -> Facts:
    """One hook's script is not as it should be."""
    hooks = {**HOOKS, name: msgspec.structs.replace(HOOKS[name], **changed)}
    return facts(hooks=tuple(hook(key, one) for key, one in hooks.items()))


def settings(**changed: object) -> Settings:
    return msgspec.structs.replace(facts().settings, **changed)


def complaints(found: Facts) -> list[Complaint]:
    return list(examine(found))


def rules(found: Facts) -> list[str]:
    return [f"{one.level.value} {one.rule}" for one in examine(found)]
