"""Nodes through ssh: the only place that imports paramiko."""

from slurm_integration.sweep.transports.ssh.transport import SshSettings, SshTransport

__all__ = ["SshSettings", "SshTransport"]
