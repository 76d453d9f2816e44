"""An ssh server that answers every command after a while with one text, in a few processes.

A real sshd forks and executes half a dozen programs for a command, on the very cores that the
measured client needs; this one costs about what the client does.

    python -m benchmarks.ssh_server HOST_KEY ANSWER DELAY_S PROCESSES   (prints its port)
"""

import logging
import os
import shlex
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import paramiko


class Answering(paramiko.ServerInterface):
    """Lets anybody in, and answers any command."""

    def __init__(self, answer: bytes, delay_s: float) -> None:
        self._answer, self._delay_s = answer, delay_s

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Sessions are welcome."""
        return paramiko.OPEN_SUCCEEDED

    def get_allowed_auths(self, username: str) -> str:
        """Keys, as on a cluster."""
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Any key; its signature is verified all the same."""
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Answer later, in a thread, as a process would."""
        threading.Thread(target=self._say, args=(channel, command), daemon=True).start()
        return True

    def _say(self, channel: paramiko.Channel, command: bytes) -> None:
        time.sleep(self._delay_s)
        text = self._answer
        if b" begin %s>" in command:  # our script: its marks carry the nonce it was given
            nonce = shlex.split(command.decode())[4].encode()
            text = b"<%s begin >%s<%s end 0>\n" % (nonce, text, nonce)
        try:
            channel.sendall(text)
            channel.send_exit_status(0)
            channel.close()
        except OSError:
            return


def main() -> None:
    """Listen on all loopback addresses; serve until SIGTERM."""
    key = paramiko.PKey.from_path(sys.argv[1])
    answer = Path(sys.argv[2]).read_bytes()
    delay_s, processes = float(sys.argv[3]), int(sys.argv[4])
    logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
    server = socket.create_server(("0.0.0.0", 0), backlog=1024)
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            serve(server, key, answer, delay_s)
        children.append(child)
    print(server.getsockname()[1], flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        signal.pause()
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def serve(server: socket.socket, key: paramiko.PKey, answer: bytes, delay_s: float) -> None:
    """Accept for ever."""
    while True:
        client, _ = server.accept()
        transport = paramiko.Transport(client)
        client.settimeout(5)  # instead of ten looks a second and thread
        transport.add_server_key(key)
        try:
            transport.start_server(event=threading.Event(), server=Answering(answer, delay_s))
        except (paramiko.SSHException, OSError):
            client.close()


if __name__ == "__main__":
    main()
