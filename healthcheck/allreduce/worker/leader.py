"""The child's first process: imports torch once, serves the store, forks a rank per device.

It never touches torch.cuda: a CUDA context does not survive a fork.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import signal
import socket
import sys
import time
from typing import Any

from .talk import Pipe, Slot

MAX_PLAN = 1 << 20


def lead(message_fd: int, slots_fd: int) -> None:
    """Import torch while the supervisor still plans, then do what the plan says."""
    _die_with_parent()
    pipe = Pipe(message_fd)
    pipe.send("hello", pid=os.getpid(), python=sys.version.split()[0])
    started = time.monotonic()
    try:
        import torch  # noqa: TID251 - this is the child that may
        import torch.distributed  # noqa: TID251
    except Exception as error:  # noqa: BLE001 - a broken installation raises anything
        pipe.send("error", kind="start", cause="no-torch",
                  reason=f"{type(error).__name__}: {error}")  # fmt: skip
        return
    torch.set_num_threads(1)
    pipe.send("torch", version=torch.__version__, cuda=torch.version.cuda,
              seconds=round(time.monotonic() - started, 3))  # fmt: skip
    plan = json.loads(sys.stdin.buffer.readline(MAX_PLAN) or b"null")
    if plan is None:
        return  # the supervisor found out that there is nothing to test
    # Before anything looks at a device or a network.
    os.environ.update(plan["env"])
    for name, value in plan["defaults"].items():
        os.environ.setdefault(name, value)
    if not torch.distributed.is_available():
        pipe.send("error", kind="start", cause="no-torch", reason="torch without distributed")
        return
    _run(plan, pipe, mmap.mmap(slots_fd, 0))


def _run(plan: dict[str, Any], pipe: Pipe, memory: mmap.mmap) -> None:
    from .rank import become, rehearse  # before the fork: once and not in every rank

    listener = _listen(plan, pipe) if plan["store"]["serve"] else None
    rehearse()
    gc.freeze()
    pids: dict[int, int] = {}
    for local in range(plan["local"]):
        pid = os.fork()
        if pid == 0:
            if listener is not None:
                listener.close()
            _die_with_parent()
            become(plan, local, pipe, Slot(memory, local))
        pids[pid] = plan["first"] + local
        pipe.send("forked", rank=plan["first"] + local, pid=pid)
    store = _serve(plan, listener) if listener is not None else None
    while pids:
        pid, status = os.wait()
        rank = pids.pop(pid, None)
        if rank is not None:
            # This process has no other children than its ranks.
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            pipe.send("exit", rank=rank, code=code)
    if store is not None and plan["ranks"] > plan["local"]:
        _linger(store, plan)
    pipe.send("end")
    os._exit(0)


def _listen(plan: dict[str, Any], pipe: Pipe) -> socket.socket | None:
    """A listening socket before the fork, so that every rank finds somebody there."""
    where = plan["store"]
    try:
        listener = socket.create_server((where["bind"], where["port"]), backlog=1024)
    except OSError as error:
        pipe.send(
            "error",
            kind="start",
            cause="rendezvous",
            reason=f"cannot listen on {where['bind']}:{where['port']}: {error}",
        )
        os._exit(0)
    where["port"] = listener.getsockname()[1]
    return listener


def _serve(plan: dict[str, Any], listener: socket.socket) -> Any:
    """The store that ranks meet at, here and not in a rank, which may die."""
    from torch.distributed import TCPStore  # noqa: TID251

    port = listener.getsockname()[1]
    return TCPStore(
        plan["store"]["bind"] or "127.0.0.1", port, is_master=True, wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )  # fmt: skip


def _linger(store: Any, plan: dict[str, Any]) -> None:
    """Ranks on other nodes may still read from the store; give them a moment."""
    from .collective import absent
    from .rank import LEAVE_S

    absent(store, [f"left/{rank}" for rank in range(plan["ranks"])], LEAVE_S)


def _die_with_parent() -> None:
    """Nothing of this test may outlive who started it (prctl PR_SET_PDEATHSIG)."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        pass
