"""A real Slurm cluster on one machine: slurmctld, one slurmd a node, and a munged of its own.

Everything lies below one state folder; several sandboxes can run at the same time.
"""

from slurm_integration.sandbox.cluster.clearing import in_service, no_jobs
from slurm_integration.sandbox.cluster.control import (
    ClusterStatus,
    client,
    client_environment,
    down,
    reconfigure,
    status,
    up,
    why_not,
)
from slurm_integration.sandbox.cluster.render import with_lines
from slurm_integration.sandbox.cluster.spec import ClusterSpec, SandboxError

__all__ = [
    "ClusterSpec",
    "ClusterStatus",
    "SandboxError",
    "client",
    "client_environment",
    "down",
    "in_service",
    "no_jobs",
    "reconfigure",
    "status",
    "up",
    "why_not",
    "with_lines",
]
