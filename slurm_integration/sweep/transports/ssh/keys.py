"""The keys to log in with: the agent's and those in files, in OpenSSH's order."""

import os
import socket
import threading

import paramiko  # noqa: TID251 - part of the ssh transport
from paramiko.agent import AgentSSH  # noqa: TID251

from slurm_integration.sweep.transports.ssh.endpoint import Endpoint

AGENT_S = 5.0
MAX_TRIES = 5
"""sshd hangs up at the sixth (MaxAuthTries)."""


class _Agent(AgentSSH):
    """An agent that many threads may ask to sign."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._turn = threading.Lock()
        conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        conn.settimeout(AGENT_S)
        conn.connect(path)
        self._connect(conn)  # type: ignore[attr-defined]

    def _send_message(self, msg: object) -> object:
        with self._turn:
            return super()._send_message(msg)  # type: ignore[misc]


class Keyring:
    """Keys, each read once. `notes` tells which could not be used. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, list[paramiko.PKey]] = {}
        self._agents: dict[str, tuple[paramiko.PKey, ...]] = {}
        self._good: dict[str, bytes] = {}
        self.notes: list[str] = []

    def keys(self, endpoint: Endpoint) -> list[paramiko.PKey]:
        """What to try, most promising first: the key that a peer has taken, then as OpenSSH."""
        with self._lock:
            files = [(path, key) for path in endpoint.identities for key in self._file(path)]
            offered = self._agent(endpoint.agent) if endpoint.agent else ()
            named = {key.asbytes() for _, key in files} | {
                blob for path in endpoint.identities if (blob := _public(path))
            }
            in_agent = {key.asbytes() for key in offered}
            ordered = [key for key in offered if key.asbytes() in named]
            if not endpoint.identities_only:
                ordered += [key for key in offered if key.asbytes() not in named]
            ordered += [key for _, key in files if key.asbytes() not in in_agent]
            good = self._good.get(endpoint.user)
        ordered.sort(key=lambda key: key.asbytes() != good)
        return ordered[:MAX_TRIES]

    def took(self, endpoint: Endpoint, key: paramiko.PKey) -> None:
        """This key has opened the door; others have likely the same lock."""
        self._good[endpoint.user] = key.asbytes()

    def _file(self, path: str) -> list[paramiko.PKey]:
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def _read(self, path: str) -> list[paramiko.PKey]:
        if not os.path.isfile(path):
            return []
        try:
            key = paramiko.PKey.from_path(path)
            found = [key]
            if os.path.isfile(f"{path}-cert.pub"):
                certified = paramiko.PKey.from_path(path)
                certified.load_certificate(f"{path}-cert.pub")
                found.insert(0, certified)
        except paramiko.PasswordRequiredException:
            self.notes.append(f"{path} needs a passphrase: add it to an agent with ssh-add")
        except (paramiko.SSHException, OSError, ValueError, TypeError) as error:
            # cryptography raises TypeError for an encrypted PEM without its passphrase
            self.notes.append(f"{path} can't be used: {error}")
        else:
            return found
        return []

    def _agent(self, path: str) -> tuple[paramiko.PKey, ...]:
        if path not in self._agents:
            try:
                self._agents[path] = tuple(_Agent(path).get_keys())
            except (OSError, paramiko.SSHException) as error:
                self.notes.append(f"no agent at {path}: {error}")
                self._agents[path] = ()
        return self._agents[path]


def _public(path: str) -> bytes | None:
    """The public half beside a private key that only the agent has."""
    import base64

    try:
        with open(f"{path.removesuffix('.pub')}.pub", encoding="ascii") as file:
            return base64.b64decode(file.read(65536).split()[1])
    except (OSError, ValueError, IndexError):
        return None
