"""Run one command to its end and tell its time and memory. Started for every single run.

As small as an interpreter can be: Linux counts what a process was before exec into its largest
resident size, so a large parent would hide the command.
"""

import ctypes
import os
import sys
import time

PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """argv: the command. Prints: seconds, exit code, then KiB of each of its processes."""
    # Children that the command leaves behind come to us, so that they are measured too.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    null = os.open("/dev/null", os.O_WRONLY)
    started = time.perf_counter()
    pid = os.posix_spawn(
        sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)]
    )
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - started
    sizes = [usage.ru_maxrss]
    while True:
        try:
            sizes.append(os.wait4(-1, 0)[2].ru_maxrss)
        except ChildProcessError:
            break
    print(seconds, os.waitstatus_to_exitcode(status), *sizes)


main()
