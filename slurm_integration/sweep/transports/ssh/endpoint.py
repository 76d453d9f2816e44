"""Where ssh_config says that a node is, and how to log in there."""

import glob
import os
import pwd
import re

import msgspec
import paramiko  # noqa: TID251 - part of the ssh transport

from slurm_integration.sweep.model import SweepError

SYSTEM_CONFIG = "/etc/ssh/ssh_config"
USER_CONFIG = "~/.ssh/config"
SYSTEM_KNOWN = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
USER_KNOWN = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
MAX_DEPTH = 16
MAX_CONFIG = 4 << 20
_KEYWORD = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*)")


class Endpoint(msgspec.Struct, frozen=True):
    """One host as ssh_config describes it. `key_name` is what known_hosts calls it."""

    host: str
    port: int
    user: str
    key_name: str
    identities: tuple[str, ...] = ()
    identities_only: bool = False
    agent: str = ""
    """Path of the agent's socket; "" for none."""
    known_files: tuple[str, ...] = ()
    hash_known: bool = False
    proxy_command: str = ""
    jumps: tuple[str, ...] = ()
    """`user@host:port` of the hosts on the way, the first to connect to first."""
    connect_s: float | None = None


class SshConfig:
    """ssh_config files, `Include` and all. Raises SweepError for one that can't be understood."""

    def __init__(self, path: str = "", user: str = "", identity: str = "") -> None:
        self._user, self._identity = user, identity
        if path and not os.path.isfile(os.path.expanduser(path)):
            raise SweepError(f"--ssh-config {path}: no such file")
        if identity and not os.path.isfile(os.path.expanduser(identity)):
            raise SweepError(f"--identity {identity}: no such file")
        # As with `ssh -F`, a given file stands alone.
        paths = [path] if path else [USER_CONFIG, SYSTEM_CONFIG]
        lines: list[str] = []
        for one in paths:
            lines += [*_lines(os.path.expanduser(one), "Host *", 0), "Host *"]
        try:
            self._config = paramiko.SSHConfig.from_text("\n".join(lines) + "\n")
        except paramiko.SSHException as error:
            raise SweepError(f"{' or '.join(paths)}: {error}") from error

    def endpoint(self, name: str, *, jump: bool = False) -> Endpoint:
        """The endpoint of `name`; of `[user@]host[:port]` for a jump host.

        Raises SweepError where the configuration can't be applied to it.
        """
        user, host, port = _split(name) if jump else ("", name, 0)
        try:
            found = self._config.lookup(host)
            number = port or int(found.get("port", 22))
            wait = float(found["connecttimeout"]) if "connecttimeout" in found else None
        except (paramiko.SSHException, ValueError, KeyError) as error:
            raise SweepError(f"ssh_config for {name}: {error}") from error
        except Exception as error:  # Match exec without the package invoke, odd patterns
            raise SweepError(f"ssh_config for {name}: {error}") from error
        given = self._user if not jump else user
        target = str(found.get("hostname", host))
        agent = str(found.get("identityagent", "SSH_AUTH_SOCK"))
        return Endpoint(
            host=target,
            port=number,
            user=given or user or str(found.get("user", "")) or _me(),
            key_name=str(found.get("hostkeyalias", "")) or target,
            identities=self._identities(found.get("identityfile", [])),
            identities_only=found.get("identitiesonly", "no").lower() == "yes",
            agent=_agent(agent),
            known_files=(
                *_paths(found.get("userknownhostsfile", USER_KNOWN)),
                *_paths(found.get("globalknownhostsfile", SYSTEM_KNOWN)),
            ),
            hash_known=found.get("hashknownhosts", "no").lower() == "yes",
            proxy_command=str(found.get("proxycommand") or ""),
            jumps=_jumps(found.get("proxyjump", "")),
            connect_s=wait,
        )

    def _identities(self, files: str | list[str]) -> tuple[str, ...]:
        given = [self._identity] if self._identity else []
        listed = [files] if isinstance(files, str) else files
        named = [os.path.expanduser(path) for path in [*given, *listed] if path.lower() != "none"]
        return tuple(named) or tuple(os.path.expanduser(path) for path in DEFAULT_KEYS)


def _lines(path: str, block: str, depth: int) -> list[str]:
    """The file's lines with those of included files in place. `block`: the Host or Match line
    that is in force, and again after an included file.
    """
    if depth > MAX_DEPTH:
        raise SweepError(f"{path}: Include goes deeper than {MAX_DEPTH} files")
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_CONFIG).decode("utf-8", "replace")
    except OSError:
        return []
    found: list[str] = []
    for line in text.splitlines():
        told = _KEYWORD.match(line)
        keyword = told[1].lower() if told else ""
        if keyword in ("host", "match"):
            block = line
        if keyword != "include" or told is None:
            found.append(line)
            continue
        base = "/etc/ssh" if path.startswith("/etc/ssh/") else os.path.expanduser("~/.ssh")
        for pattern in told[2].replace('"', "").split():
            for name in sorted(glob.glob(os.path.join(base, os.path.expanduser(pattern)))):
                found += [*_lines(name, block, depth + 1), block]
    return found


def _split(spec: str) -> tuple[str, str, int]:
    """`user@host:port`, `ssh://` before it, brackets around IPv6 addresses."""
    user, _, rest = spec.removeprefix("ssh://").rpartition("@")
    told = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,5}))?|([^:]+)(?::(\d{1,5}))?|(.+)", rest)
    if told is None:
        raise SweepError(f"ProxyJump {spec!r}: expected [user@]host[:port]")
    return user, told[1] or told[3] or told[5], int(told[2] or told[4] or 0)


def _jumps(text: str) -> tuple[str, ...]:
    return () if text.lower() == "none" else tuple(filter(None, text.replace(" ", "").split(",")))


def _paths(text: str) -> tuple[str, ...]:
    return tuple(os.path.expanduser(path) for path in text.split() if path.lower() != "none")


def _agent(text: str) -> str:
    if text.lower() == "none":
        return ""
    if text == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK", "")
    return os.path.expanduser(os.environ.get(text[1:], "") if text.startswith("$") else text)


def _me() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "root"
