"""Required services."""

from collections.abc import Iterator

from healthcheck.checks._partial import with_unmeasured
from healthcheck.model import Finding, NotApplicable, Snapshot, fail, warn
from healthcheck.model.judgement import Action
from healthcheck.registry import NoLimits, check

GOOD = ("active", "reloading")
PASSING = ("activating", "deactivating", "maintenance")


@check("services", needs=("services",), source="systemd, man 1 systemctl (is-active)")
def services(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """Every service that the profile or the configuration names is running.

    What it means: without nvidia-fabricmanager the NVLink fabric of an NVSwitch node is down,
    without nvidia-imex that of an NVL rack, without a time or storage service the job fails
    later and less plainly.

    What we do: look for the service's processes in its control group, and outside the prolog ask
    systemctl where there are none. Not running: fail. Starting, stopping or between two starts:
    warn, since a service that keeps dying looks like that as well.

    What to do: `systemctl status NAME` and `journalctl -u NAME -b`; start it, then resume the
    node.
    """
    if not node.services:
        raise NotApplicable("neither the profile nor the configuration names a service")
    found: list[Finding] = []
    unknown: list[str] = []
    for name, state in sorted(node.services.items()):
        if state in GOOD:
            continue
        if state == "unknown":
            unknown.append(name)
        else:
            found.append(_not_running(name, state))
    silent = [f"no systemd here that would tell the state of {name}" for name in unknown]
    yield from with_unmeasured(found, silent)


def _not_running(name: str, state: str) -> Finding:
    if state in PASSING:
        return warn(
            name,
            f"service is {state} and has no process of its own, expected running",
            measured=state,
            expected="active",
        )
    return fail(
        name,
        f"service is {state}, expected running",
        measured=state,
        expected="active",
        action=Action.DRAIN,
    )
