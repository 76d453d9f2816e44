"""Real sshds on loopback, with keys of their own: what the sweep's ssh meets in a sandbox.

All files lie in one folder; nothing of the machine's own ssh is read or changed.
"""

import os
import shutil
import socket
import subprocess  # noqa: TID251 - the sandbox runs sshd and ssh-keygen
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

SSHD = "/usr/sbin/sshd"
_CONFIG = """\
ListenAddress {address}:{port}
HostKey {folder}/{name}.key
PidFile none
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PrintMotd no
UseDNS no
LogLevel {level}
MaxStartups 2000
MaxSessions 1000
AllowTcpForwarding yes
{more}
"""


class SshdError(Exception):
    """sshd can't be started; the text says what to do."""


class Sshd(msgspec.Struct, frozen=True):
    """One running sshd. `host_key` is its public key as known_hosts has it."""

    name: str
    address: str
    port: int
    host_key: str
    process: "subprocess.Popen[bytes]"


def why_not() -> str | None:
    """Why no sshd can be started on this machine; None where one can."""
    if os.geteuid() != 0:
        return "sshd needs root to let root in"
    if not os.access(SSHD, os.X_OK) or shutil.which("ssh-keygen") is None:
        return "no sshd; on Debian: apt-get install --no-install-recommends openssh-server"
    return None


def client_key(folder: Path) -> Path:
    """The key that every sshd of this folder lets in; made at the first call."""
    path = folder / "id_ed25519"
    if not path.exists():
        _keygen(path)
        (folder / "authorized_keys").write_bytes(path.with_suffix(".pub").read_bytes())
    return path


def start(
    folder: Path,
    name: str,
    *,
    address: str = "127.0.0.1",
    environment: Mapping[str, str] | None = None,
    force: str = "",
    more: str = "",
) -> Sshd:
    """Start one. `environment` is set for its sessions; `force` replaces their command."""
    reason = why_not()
    if reason:
        raise SshdError(reason)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    client_key(folder)
    key = folder / f"{name}.key"
    if not key.exists():
        _keygen(key)
    lines = [f'SetEnv "{key}={value}"' for key, value in (environment or {}).items()]
    if len(lines) > 1:  # only the first SetEnv line counts
        lines = [" ".join([lines[0], *(line.removeprefix("SetEnv ") for line in lines[1:])])]
    lines += [f"ForceCommand {force}"] if force else []
    port = _free_port()
    config = folder / f"{name}.conf"
    config.write_text(
        _CONFIG.format(address=address, port=port, folder=folder, name=name, level="ERROR",
                       more="\n".join([*lines, more]))
    )  # fmt: skip
    with open(folder / f"{name}.log", "ab") as log:
        process = subprocess.Popen(  # noqa: S603 - a list, no shell
            [SSHD, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    _wait(process, "127.0.0.1" if address == "0.0.0.0" else address, port, folder / f"{name}.log")  # noqa: S104
    public = (folder / f"{name}.key.pub").read_text().split()
    return Sshd(name, address, port, f"{public[0]} {public[1]}", process)


def stop(daemon: Sshd) -> None:
    """End it and its sessions."""
    children = subprocess.run(  # noqa: S603
        ["ps", "-o", "pid=", "--ppid", str(daemon.process.pid)],  # noqa: S607
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for pid in [*map(int, children.stdout.split()), daemon.process.pid]:
        try:
            os.kill(pid, 15)
        except ProcessLookupError:
            continue
    daemon.process.wait(10)


def client_config(
    folder: Path, hosts: Mapping[str, Sshd], *, known: Mapping[str, str] | None = None
) -> Path:
    """An ssh_config that leads each name to its sshd, and the known_hosts beside it.

    `known` replaces the key by which a name is known; "" leaves it out.
    """
    known = known or {}
    entries, lines = [], []
    for name, daemon in hosts.items():
        entries.append(
            f"Host {name}\n  HostName {daemon.address}\n  Port {daemon.port}\n"
            f"  HostKeyAlias {name}\n"
        )
        key = known.get(name, daemon.host_key)
        lines += [f"[{name}]:{daemon.port} {key}"] if key else []
    (folder / "known_hosts").write_text("".join(f"{line}\n" for line in lines))
    path = folder / "ssh_config"
    path.write_text(
        "".join(entries)
        + f"Host *\n  User root\n  IdentityFile {client_key(folder)}\n  IdentitiesOnly yes\n"
        f"  IdentityAgent none\n  UserKnownHostsFile {folder}/known_hosts\n"
        "  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n"
    )
    return path


def _keygen(path: Path) -> None:
    subprocess.run(  # noqa: S603
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)],  # noqa: S607
        check=True, capture_output=True,
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: "subprocess.Popen[bytes]", address: str, port: int, log: Path) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection((address, port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    process.kill()
    process.wait()
    raise SshdError(f"sshd did not start: {log.read_text()[-400:] or 'no message'}")
