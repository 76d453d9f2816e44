"""Whether Slurm still calls what an uninstall would take away. Pure.

A hook that is not there any more fails, and a glob that matches nothing fails: both drain every
node, one job after the other.
"""

from slurm_integration.doctor.model import Hook
from slurm_integration.install.model import Do, Plan


def still_called(hooks: tuple[Hook, ...], plan: Plan) -> list[str]:
    """The entries of slurm.conf that would lead to nothing, in words."""
    going = {step.path for step in plan.of(Do.REMOVE)}
    told = []
    for hook in hooks:
        paths = {script.path for script in hook.scripts}
        if hook.globbed and paths and paths <= going:
            told.append(f"{hook.name}={hook.pattern} would match no file any more")
        elif not hook.globbed and hook.pattern in going:
            told.append(f"{hook.name}={hook.pattern}")
    return told
