"""Reads everything that the rules want to know."""

import os
import time

from healthcheck.host import Host
from slurm_integration.doctor.model import Examination, Facts
from slurm_integration.doctor.reading import hooks, installation, node, slurm_files
from slurm_integration.doctor.registry import examine, load_rules
from slurm_integration.doctor.slurm_conf import SlurmConf, parse_shown
from slurm_integration.scontrol import Scontrol

SCONTROL_TIMEOUT_S = 15.0


def doctor(host: Host, config_path: str, slurm_conf: str | None, *, ask: bool) -> Examination:
    """Look at Slurm and this node. `slurm_conf`: a file in place of scontrol; `ask`: either."""
    facts = gather(host, config_path, slurm_conf, ask=ask)
    return Examination(facts.node, looked_at(facts, ask=ask), len(load_rules()), examine(facts))


def gather(host: Host, config_path: str, slurm_conf: str | None, *, ask: bool) -> Facts:
    """All facts. Never raises for what it finds."""
    began = time.time()
    settings = node.read_settings(config_path)
    slurm, trouble = (
        read_slurm(settings.config.drain.scontrol or "", slurm_conf) if ask else (None, "")
    )
    ended = time.time()
    # slurmctld looked at its clock some time during the call: the nearest moment is ours.
    seen = slurm.as_of if slurm and slurm.as_of is not None else ended
    now = min(max(seen, began - 1), ended)
    found = hooks.read_hooks(slurm) if slurm else ()
    here = node.is_node()
    socket, munge = node.read_munge(slurm) if slurm else ("", "")
    return Facts(
        node=os.environ.get("SLURMD_NODENAME") or host.node_name(),
        now=now,
        settings=settings,
        slurm=slurm,
        slurm_trouble=trouble,
        is_node=here,
        hooks=found,
        installations=installation.read_installations(found, os.environ.get("PATH", "")),
        interpreter=installation.read_interpreter(),
        folders=node.read_folders(settings),
        munge_socket=socket,
        munge_problem=munge,
        hardware=node.read_hardware(host),
        plugins=slurm_files.read_plugins(slurm) if slurm else (),
        gres=slurm_files.read_gres(slurm) if slurm else (),
        history_problem=node.read_history(settings.config, node=here),
    )


def read_slurm(scontrol: str, path: str | None) -> tuple[SlurmConf | None, str]:
    """(Slurm's configuration, why there is none): from a file, or in one call from scontrol."""
    if path:
        try:
            return slurm_files.read_slurm_conf(path), ""
        except OSError as error:
            return None, f"{error.filename or path}: {error.strerror}"
    answer = Scontrol(scontrol, timeout_s=SCONTROL_TIMEOUT_S).show_config()
    if not answer.ok:
        return None, answer.trouble()
    return parse_shown(answer.stdout), ""


def looked_at(facts: Facts, *, ask: bool) -> tuple[str, ...]:
    """The sources, in words."""
    told = []
    if facts.slurm is not None:
        version = facts.slurm.text("SLURM_VERSION")
        told.append(f"{facts.slurm.source}{f' (Slurm {version})' if version else ''}")
    elif not ask:
        told.append("not Slurm (--node-only)")
    told.append(f"node {facts.node}")
    if facts.slurm is not None and not facts.is_node:
        told.append("no slurmd runs here, so whether scripts are there was not judged")
    return tuple(told)
