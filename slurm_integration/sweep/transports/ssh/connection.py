"""One connection: reach the host, verify its key, log in, run one command, bounded throughout."""

import errno
import socket
import subprocess  # noqa: TID251 - ProxyCommand, as ssh_config names it
import threading
import time
from typing import Any

import paramiko  # noqa: TID251 - part of the ssh transport

from slurm_integration.sweep.model import Answer
from slurm_integration.sweep.transports.ssh.endpoint import Endpoint
from slurm_integration.sweep.transports.ssh.failures import NoAnswer, failed, words
from slurm_integration.sweep.transports.ssh.keys import Keyring
from slurm_integration.sweep.transports.ssh.known_hosts import KnownHosts, Match

WINDOW = 256 << 10
"""Bytes a host may send ahead of us: bounds memory at any fan-out."""
MAX_ERRORS = 8192
_STDERR_S = 2.0
"""How often standard error is emptied while standard output is awaited."""
_POLL_S = 5.0
"""How often paramiko's thread looks whether it should end; we wake it by closing the socket."""
_KEX_FIRST = ("curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256")
_CIPHERS_FIRST = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr")


class Connection:
    """A connection to one host. `deadline` is in monotonic seconds.

    `close` may be called from any thread, and ends whatever another thread waits for.
    """

    def __init__(self, endpoint: Endpoint, deadline: float) -> None:
        self.endpoint = endpoint
        self.deadline = deadline
        self.note = ""
        self.closed = False
        self._socket: Any = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ssh: paramiko.Transport | None = None

    def open(
        self, known: KnownHosts, keyring: Keyring, way: Any, connect_s: float, *, accept_new: bool
    ) -> None:
        """Connect and log in. `way` is a channel of a jump host, or None. Raises NoAnswer."""
        until = min(self.deadline, time.monotonic() + (self.endpoint.connect_s or connect_s))
        try:
            self._socket = way or self._reach(until)
            if self.closed:
                raise NoAnswer(Answer.TIMED_OUT, "ended while connecting")
            self._handshake(known, until)
            self._verify(known, accept_new=accept_new)
            self._login(keyring, until)
        except paramiko.SSHException as error:
            raise failed(error, self.endpoint, until, connected=self._ssh is not None) from error
        except (OSError, EOFError) as error:
            raise failed(error, self.endpoint, until, connected=self._ssh is not None) from error

    def run(self, line: str, max_output: int) -> tuple[bytes, bytes]:
        """Run a command line; its output, cut where it is longer than `max_output`, and its
        complaints. Raises NoAnswer.
        """
        assert self._ssh is not None
        try:
            channel = self._ssh.open_session(window_size=WINDOW, timeout=self._left())
            channel.exec_command(line.encode())
            channel.shutdown_write()
            return self._collect(channel, max_output)
        except (paramiko.SSHException, OSError, EOFError) as error:
            if self._left() <= 0 or self.closed:
                raise NoAnswer(Answer.TIMED_OUT, "no answer to the command in time") from error
            raise NoAnswer(Answer.REFUSED, f"logged in, but no command: {words(error)}") from error

    def tunnel(self, host: str, port: int) -> Any:
        """A channel through this host to another. Raises NoAnswer."""
        assert self._ssh is not None
        try:
            return self._ssh.open_channel(
                "direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=self._left()
            )
        except paramiko.ChannelException as error:
            detail = f"jump host {self.endpoint.host} can't reach {host}:{port}: {error.text}"
            raise NoAnswer(Answer.UNREACHABLE, detail) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            detail = f"jump host {self.endpoint.host} is gone: {words(error)}"
            raise NoAnswer(Answer.UNREACHABLE, detail) from error

    def close(self) -> None:
        """End it; never raises, never waits for the other side."""
        self.closed = True
        if self._socket is not None and hasattr(self._socket, "shutdown"):
            try:
                # Wakes paramiko's thread at once; its own close waits for a poll of 0.1 s.
                self._socket.shutdown(socket.SHUT_RDWR)
            except (OSError, EOFError, paramiko.SSHException):
                pass
        if self._ssh is not None:
            self._ssh.close()
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:
                pass  # unkillable: in an NFS call, say

    def _left(self) -> float:
        return self.deadline - time.monotonic()

    def _reach(self, until: float) -> Any:
        if self.endpoint.proxy_command:
            return self._proxy(self.endpoint.proxy_command)
        left = max(0.1, until - time.monotonic())
        found = socket.create_connection((self.endpoint.host, self.endpoint.port), left)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def _proxy(self, command: str) -> socket.socket:
        """ProxyCommand's standard input and output as a socket. No shell takes part."""
        import shlex

        argv = shlex.split(command.removeprefix("exec "))
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - a list from the admin's own file
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        return ours

    def _handshake(self, known: KnownHosts, until: float) -> None:
        left = max(0.1, until - time.monotonic())
        ssh = self._ssh = paramiko.Transport(self._socket)
        ssh.banner_timeout = ssh.handshake_timeout = ssh.auth_timeout = left
        ssh.channel_timeout = left
        options = ssh.get_security_options()
        options.kex = _first(_KEX_FIRST, options.kex)
        options.ciphers = _first(_CIPHERS_FIRST, options.ciphers)
        kinds = [kind for kind, _ in known.keys_of(self.endpoint.key_name, self.endpoint.port)]
        options.key_types = _first(_signatures(kinds), options.key_types)
        # paramiko's own waits poll ten times a second and thread; ours sleep until the event.
        self._socket.settimeout(_POLL_S)
        done = threading.Event()
        ssh.start_client(event=done)
        self._await(done, until, "no handshake")
        if not ssh.is_active():
            raise ssh.get_exception() or EOFError("the handshake broke off")

    def _await(self, event: threading.Event, until: float, what: str) -> None:
        if not event.wait(max(0.1, until - time.monotonic())):
            raise TimeoutError(errno.ETIMEDOUT, what)

    def _verify(self, known: KnownHosts, *, accept_new: bool) -> None:
        assert self._ssh is not None
        offered, there = self._ssh.get_remote_server_key(), self.endpoint
        key = (offered.get_name(), offered.get_base64())
        match known.judge(key, there.key_name, there.port):
            case Match.KNOWN:
                return
            case Match.UNKNOWN if accept_new and there.known_files:
                self.note = known.learn(
                    key, there.key_name, there.port, there.known_files[0],
                    hashed=there.hash_known,
                )  # fmt: skip
            case Match.UNKNOWN:
                hint = "; only an authority is trusted, which is not supported here"
                raise NoAnswer(
                    Answer.UNKNOWN_HOST_KEY,
                    f"no key is known for {there.key_name} ({key[0]} {offered.fingerprint})"
                    f"{hint if known.authorities else ''}: ssh-keyscan, or --accept-new",
                )
            case Match.REVOKED:
                raise NoAnswer(Answer.WRONG_HOST_KEY, f"a revoked key: {offered.fingerprint}")
            case _:
                raise NoAnswer(
                    Answer.WRONG_HOST_KEY,
                    f"{there.key_name} is known by another key than {key[0]} "
                    f"{offered.fingerprint}; nothing was sent. Somebody in between, or a node "
                    f"installed anew: then ssh-keygen -R {there.key_name}",
                )

    def _login(self, keyring: Keyring, until: float) -> None:
        assert self._ssh is not None
        keys = keyring.keys(self.endpoint)
        for key in keys:
            answered = threading.Event()
            self._ssh.auth_publickey(self.endpoint.user, key, answered)
            self._await(answered, until, "no answer to the login")
            if self._ssh.is_authenticated():
                keyring.took(self.endpoint, key)
                return
            if not self._ssh.is_active():
                break
        tried = f"none of {len(keys)} keys is accepted" if keys else "no key to log in with"
        hint = "; ".join(keyring.notes[:2])
        raise NoAnswer(
            Answer.REFUSED, f"login as {self.endpoint.user}: {tried}{f' ({hint})' if hint else ''}"
        )

    def _collect(self, channel: paramiko.Channel, max_output: int) -> tuple[bytes, bytes]:
        said, complained = bytearray(), bytearray()
        channel.settimeout(_STDERR_S)
        while len(said) <= max_output:
            try:
                chunk = channel.recv(65536)
            except TimeoutError:
                chunk = b"-"
                if self._left() <= 0 or self.closed:
                    raise
            else:
                said += chunk
            while channel.recv_stderr_ready():
                # Read in any case, or a full window would hold the other stream up.
                complained += channel.recv_stderr(65536)
                del complained[:-MAX_ERRORS]
            if not chunk:
                break
        if self.closed:
            raise TimeoutError(errno.ETIMEDOUT, "ended")
        return bytes(said), bytes(complained)


def _first(wanted: tuple[str, ...], offered: Any) -> tuple[str, ...]:
    """`offered`, with what is wanted at its head."""
    chosen = tuple(name for name in wanted if name in offered)
    return chosen + tuple(name for name in offered if name not in chosen)


def _signatures(kinds: list[str]) -> tuple[str, ...]:
    """Host key algorithms for the kinds of keys known, so that the host shows one of those."""
    names: list[str] = []
    for kind in kinds:
        names += ["rsa-sha2-512", "rsa-sha2-256"] if kind == "ssh-rsa" else [kind]
    return tuple(dict.fromkeys(names))
