#!/bin/sh
# Slurm's TaskProlog: arms PyTorch's flight recorder, tells the node's preflight verdict, and
# writes down where each rank runs. In slurm.conf: TaskProlog=/etc/slurm/task-prolog.sh
#
# -I: the job's own PYTHONPATH, PYTHONHOME and working folder must not reach this interpreter.
# Always 0: a TaskProlog that fails cancels the task, and no job shall die of a missing tool.
/opt/flightcheck/bin/python -I -m prolog.task
exit 0
