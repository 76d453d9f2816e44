#!/usr/bin/env python3
"""Send flightcheck's events by e-mail, through the machine's own sendmail.

[notify]
on_event = ["/etc/flightcheck/on-event/send-mail.py", "hpc-operators@example.org"]
"""

import json
import os
import subprocess
import sys
from email.message import EmailMessage

SENDMAIL = os.environ.get("SENDMAIL", "/usr/sbin/sendmail")


def main() -> None:
    """One event from standard input to the addresses in the arguments."""
    if len(sys.argv) < 2:
        sys.exit("usage: send-mail.py ADDRESS… < event.json")
    event = json.load(sys.stdin)
    mail = EmailMessage()
    mail["To"] = ", ".join(sys.argv[1:])
    mail["Subject"] = f"[flightcheck] {event['node']} {event['kind']}"
    # One conversation a node and kind, in readers that thread by this.
    mail["References"] = f"<{event['node']}.{event['kind']}@flightcheck>"
    mail["Auto-Submitted"] = "auto-generated"
    details = "\n".join(f"{name:12} {value}" for name, value in sorted(event.items()))
    mail.set_content(f"{event['text']}\n\n{details}\n")
    done = subprocess.run([SENDMAIL, "-t", "-i"], input=mail.as_bytes(), check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
