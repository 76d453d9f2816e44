"""The files of a sandbox cluster."""

import os
import re
import secrets
import shlex
from pathlib import Path

import jinja2

from slurm_integration.sandbox.cluster.spec import ClusterSpec

_ETC = ("slurm.conf", "gres.conf", "cgroup.conf", "plugstack.conf")


def render(
    spec: ClusterSpec, ports: tuple[int, ...], release: tuple[int, int] = (22, 5)
) -> dict[str, str]:
    """File name below the state folder → text. `ports`: slurmctld's, then each node's. Pure."""
    env = jinja2.Environment(  # noqa: S701 - configuration files, not HTML
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters["quote"] = shlex.quote
    env.filters["per_node"] = _per_node
    facts = {
        "spec": spec,
        "state": spec.state,
        "release": release,
        "nodes": spec.names,
        "folded": _fold(spec.names),
        "ctld_port": ports[0],
        "slurmd_ports": ",".join(str(port) for port in ports[1:])
        if len(ports) == 2
        else f"[{ports[1]}-{ports[-1]}]",
    }
    files = {f"etc/{name}": env.get_template(f"{name}.j2").render(facts) for name in _ETC}
    files["etc/slurm.conf"] = with_lines(files["etc/slurm.conf"], spec.extra)
    environment = {
        "FLIGHTCHECK_ROOT": f"{spec.state}/nodes/%n/root",
        "FLIGHTCHECK_CONFIG": f"{spec.state}/flightcheck.toml",
        # A HealthCheckProgram is told the node's name and nothing else.
        "SLURM_CONF": spec.conf,
        **spec.hook_environment,
    }
    hook = env.get_template("hook.j2")
    for name, command in _hooks(spec):
        if command is not None:
            files[f"bin/{name}"] = hook.render(hook=name, command=command, environment=environment)
    return files


def with_lines(conf: str, lines: tuple[str, ...]) -> str:
    """slurm.conf with these lines at its end instead of its own of the same name. Pure.

    Slurm up to 23.11 takes the last of two Prolog lines; from 24.05 on it runs both.
    """
    several = {"nodename", "partitionname"}
    new = {line.partition("=")[0].lower() for line in lines} - several
    kept = [line for line in conf.splitlines() if line.partition("=")[0].lower() not in new]
    return "\n".join((*kept, *lines)) + "\n"


def slurm_release() -> tuple[int, int]:
    """(24, 11), as slurmctld says it; that of Debian 12 where it says nothing."""
    from healthcheck.command import run_command

    try:
        told = run_command(["slurmctld", "-V"], 5.0).stdout
    except OSError:
        return 22, 5
    found = re.search(r"(\d+)\.(\d+)", told)
    return (int(found[1]), int(found[2])) if found else (22, 5)


def _hooks(spec: ClusterSpec) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    return (("prolog", spec.prolog), ("epilog", spec.epilog), ("health", spec.health))


def write(spec: ClusterSpec, ports: tuple[int, ...]) -> None:
    """Write the files and folders; the key of an earlier start is kept."""
    state = Path(spec.state)
    folders = ["etc", "bin", "dev", "munge", "slurmctld/state"]
    folders += [f"nodes/{name}/{part}" for name in spec.names for part in ("spool", "root")]
    for folder in folders:
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "munge").chmod(0o711)
    for name, text in render(spec, ports, slurm_release()).items():
        (state / name).write_text(text)
        (state / name).chmod(0o755 if name.startswith("bin/") else 0o644)
    key = state / "munge/key"
    if not key.exists():
        fd = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(fd, "wb") as file:
            file.write(secrets.token_bytes(128))
    for number in range(spec.gpus):
        # gres.conf wants a character device; its number comes from the name.
        link = state / f"dev/nvidia{number}"
        if not link.is_symlink():
            link.symlink_to("/dev/null")


def _fold(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
    return f"node[{names[0][4:]}-{names[-1][4:]}]"


def _per_node(value: str) -> str:
    """Shell text for `value` with the node's name for each `%n`."""
    return (
        '"$SLURMD_NODENAME"'.join(shlex.quote(part) if part else "" for part in value.split("%n"))
        or "''"
    )
