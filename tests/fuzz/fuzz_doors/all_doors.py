"""Every door, by name."""

import job_doors as _job
import node_doors as _node
import slurm_doors as _slurm
import state_doors as _state
import wire_doors as _wire
from door import DOORS

ROOMS = (_job, _node, _slurm, _state, _wire)
__all__ = ["DOORS", "ROOMS"]
