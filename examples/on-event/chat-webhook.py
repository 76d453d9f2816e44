#!/usr/bin/env python3
"""Post flightcheck's events to a chat: anything with an incoming webhook of Slack's form.

    [notify]
    on_event = ["/etc/flightcheck/on-event/chat-webhook.py", "/etc/flightcheck/webhook-url"]

The file named by the argument holds the URL, and is root's alone (mode 0600): whoever has the URL
can write to the channel. Exit code 0 means posted; anything else, and flightcheck tries again.
"""

import json
import os
import stat
import sys
import urllib.error
import urllib.request

MARKS = {"drain": ":red_circle:", "resume": ":large_green_circle:", "requeue": ":repeat:"}
TIMEOUT_S = 8


def secret(path: str) -> str:
    """The URL in the file. SystemExit where others could read it."""
    with open(path, encoding="ascii") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            sys.exit(f"{path}: expected a file that only root reads (chmod 600): it is a secret")
        url = file.readline().strip()
    if not url.startswith(("https://", "http://")):
        sys.exit(f"{path}: expected a line with https://…")
    return url


def main() -> None:
    """One event from standard input to the channel."""
    if len(sys.argv) != 2:
        sys.exit("usage: chat-webhook.py FILE-WITH-URL < event.json")
    event = json.load(sys.stdin)
    text = f"{MARKS.get(event['kind'], ':warning:')} {event['text']}"
    # What stands between < and > would be a link, and @-words would call people.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    request = urllib.request.Request(
        secret(sys.argv[1]),
        data=json.dumps({"text": text}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read(1000)
    except urllib.error.HTTPError as error:
        sys.exit(f"the server answered {error.code}")  # not the URL: it is a secret
    except OSError as error:
        sys.exit(f"the server cannot be reached: {getattr(error, 'reason', error)}")


if __name__ == "__main__":
    main()
