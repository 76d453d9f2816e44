"""A node's share of a test, done by the single-node test's own child."""

import contextlib
import fcntl
import socket
import struct
import time
from collections.abc import Sequence

import msgspec

from healthcheck.allreduce.launch import Child
from healthcheck.allreduce.model import AllreduceEnd, AllreduceResult, GpuPlace, Plan
from healthcheck.allreduce.run import run, start
from healthcheck.allreduce.settings import AllreduceSettings
from healthcheck.allreduce.shapes import QUICK_SUM, make_plan
from slurm_integration.allreduce_nodes.model import NodeResult
from slurm_integration.allreduce_nodes.order import Order

OWN_CAUSES = ("no-torch", "no-cuda", "no-nccl", "interpreter", "no-ranks", "untrusted")
"""Starts that fail on a node for a reason of its own, whoever its partners are."""
_SIOCGIFADDR = 0x8915


class TorchWork:
    """Runs orders with torch. One child ahead is already importing it."""

    def __init__(
        self, node: str, python: str, settings: AllreduceSettings, backend: str, local: int,
        gpus: tuple[GpuPlace, ...], depth: str, sizes: Sequence[int], trouble: str = "",
        script: str | None = None,
    ) -> None:  # fmt: skip
        self.node = node
        self.backend = backend
        self.local = local
        self.trouble = trouble
        self._python = python
        self._settings = settings
        self._gpus = gpus
        self._depth = depth
        self._sizes = sizes
        self._script = script
        self._ahead: Child | None = None

    def warm(self) -> None:
        """Start the first child before anybody has asked."""
        if not self.trouble:
            self._ahead = start(self._python, self._settings.env, self._script)

    def measure(self, order: Order) -> NodeResult:
        """Run one test; never raises."""
        until = time.monotonic() + order.seconds
        child, self._ahead = self._ahead, None
        try:
            child = child or start(self._python, self._settings.env, self._script)
            return answer(run(child, self.plan(order), until), order)
        except Exception as error:  # noqa: BLE001 - the others must hear of it
            if child is not None:
                child.end()
            return NodeResult(order.id, "could-not-start", f"{type(error).__name__}: {error}")

    def plan(self, order: Order) -> Plan:
        """The order as the single-node test understands it."""
        plan = make_plan(
            self.backend, self._depth, self.local, gpus=self._gpus, sizes=self._sizes,
            timeout_s=min(self._settings.collective_timeout_s, order.seconds / 2),
            seed=order.seed, node=self.node,
        )  # fmt: skip
        if order.light:
            sums = [case for case in plan.cases if case[:2] == QUICK_SUM]
            plan = msgspec.structs.replace(
                plan, cases=tuple(sums[:2]), matmul=0, random_count=0, sizes=plan.sizes[-1:]
            )
        if order.alone:
            return plan
        env = {}
        if self.backend == "gloo" and "GLOO_SOCKET_IFNAME" not in self._settings.env:
            # Else gloo takes the address that this host's own name resolves to, often a loopback.
            interface = interface_of(order.address)
            env = {"GLOO_SOCKET_IFNAME": interface} if interface else {}
        return msgspec.structs.replace(
            plan, ranks=order.ranks, first=order.first, store_host=order.store_host,
            store_port=order.store_port, serve=order.serve, bind=order.store_host,
            join_s=min(plan.join_s, order.seconds / 2), env=plan.env | env,
        )  # fmt: skip

    def close(self) -> None:
        """End the child that nobody needs any more."""
        if self._ahead is not None:
            self._ahead.end()
            self._ahead = None


def answer(result: AllreduceResult, order: Order) -> NodeResult:
    """What the coordinator needs to know of a result. Pure."""
    largest = max(result.bandwidth, key=lambda point: point.bytes, default=None)
    fault = ""
    if result.end is AllreduceEnd.COULD_NOT_START and result.cause in OWN_CAUSES:
        fault = f"{result.cause}: {result.reason or 'no reason given'}"[:400]
    elif result.end is AllreduceEnd.COULD_NOT_START and order.alone:
        fault = f"cannot start by itself: {result.reason or result.cause}"[:400]
    reason = result.reason or ""
    if result.suspects:
        accused = "; ".join(f"rank {s.rank}: {s.why}" for s in result.suspects[:4])
        reason = f"{reason} [{accused}]" if accused not in reason else reason
    return NodeResult(
        id=order.id,
        end=result.end.value,
        reason=reason[:500],
        cause=result.cause or "",
        busbw_gb_s=largest.busbw_gb_s if largest else None,
        own_fault=fault,
    )


def interface_of(address: str) -> str | None:
    """The network interface that has this IPv4 address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):
                found = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24]
                if socket.inet_ntoa(found) == address:
                    return name
    return "lo" if address.startswith("127.") else None
