"""Where the epilog and its neighbours leave things for each other."""

TASK_RECORD = "/run/flightcheck/tasks"
"""The SPANK plugin's record of task exits, `JOBID.NODE` for each job; see plugstack.conf."""
