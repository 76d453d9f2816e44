"""A sandbox cluster made as new between two uses of it. Each is asked again until it says True."""

from slurm_integration.sandbox.cluster.control import client, status


def no_jobs(state: str) -> bool:
    """Cancel all jobs; whether none is left.

    Once is not enough: a job that is cancelled while its prolog runs comes back into the queue
    (PENDING, BeginTime) when that prolog then fails. [tried: 22.05]
    """
    client(state, "scancel", "--user=root")
    left = client(state, "squeue", "-h")
    return left.returncode == 0 and not left.stdout.strip()


def in_service(state: str) -> bool:
    """Resume held nodes and take comments away; whether all are idle and bear no mark.

    Once is not enough: a prolog that was still at work may drain its node late.
    """
    nodes = status(state).nodes
    held = [node.name for node in nodes if node.held]
    noted = [node.name for node in nodes if node.comment]
    for names, field in ((held, "State=RESUME"), (noted, "Comment=")):
        if names:
            client(state, "scontrol", "update", f"NodeName={','.join(names)}", field)
    return bool(nodes) and not noted and all(n.base == "IDLE" and not n.flags for n in nodes)
