"""The ready programs for [notify] on_event, with a real HTTP server and a sendmail of our own."""

import email
import json
import subprocess
import sys
import threading
from email import policy
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples/on-event"
EVENT = {"id": "1", "node": "node17", "kind": "drain", "text": "node17 drained: <!channel> & so on"}


def run(name: str, *words: str, event: object = EVENT, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words], input=json.dumps(event), env=env,
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(self.server.code)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.got, server.code = [], 200
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def url(server, tmp_path) -> Path:
    path = tmp_path / "url"
    path.write_text(f"http://127.0.0.1:{server.server_port}/services/SECRET\n")
    path.chmod(0o600)
    return path


def test_the_chat_gets_the_line_and_no_markup_of_others(server, url):
    done = run("chat-webhook.py", str(url))
    assert (done.returncode, done.stderr) == (0, "")
    (body,) = server.got
    assert json.loads(body) == {"text": ":red_circle: node17 drained: &lt;!channel&gt; &amp; so on"}


def test_a_server_that_refuses_is_told_without_the_secret(server, url):
    server.code = 500
    done = run("chat-webhook.py", str(url))
    assert done.returncode != 0 and "500" in done.stderr and "SECRET" not in done.stderr


def test_a_server_that_is_not_there_is_told_without_the_secret(tmp_path):
    path = tmp_path / "url"
    path.write_text("http://127.0.0.1:1/services/SECRET\n")
    path.chmod(0o600)
    done = run("chat-webhook.py", str(path))
    assert done.returncode != 0 and "cannot be reached" in done.stderr
    assert "SECRET" not in done.stderr


def test_a_secret_that_others_can_read_is_not_used(server, url):
    url.chmod(0o644)
    done = run("chat-webhook.py", str(url))
    assert done.returncode != 0 and "chmod 600" in done.stderr
    assert server.got == []


def test_a_mail_is_one_a_mail_program_reads(tmp_path):
    sendmail = tmp_path / "sendmail"
    sendmail.write_text(f"#!/bin/sh\ncat > {tmp_path}/mail\n")
    sendmail.chmod(0o755)
    done = run("send-mail.py", "ops@example.org", SENDMAIL=str(sendmail))
    assert done.returncode == 0, done.stderr
    mail = email.message_from_bytes((tmp_path / "mail").read_bytes(), policy=policy.default)
    assert (mail["To"], mail["Subject"]) == ("ops@example.org", "[flightcheck] node17 drain")
    assert EVENT["text"] in mail.get_content()


def test_a_node_name_cannot_add_a_header(tmp_path):
    sendmail = tmp_path / "sendmail"
    sendmail.write_text(f"#!/bin/sh\ncat > {tmp_path}/mail\n")
    sendmail.chmod(0o755)
    odd = {**EVENT, "node": "n\nBcc: eve@example.org"}
    done = run("send-mail.py", "ops@example.org", event=odd, SENDMAIL=str(sendmail))
    assert done.returncode != 0
    assert not (tmp_path / "mail").exists()
