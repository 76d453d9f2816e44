"""What is asked of the test. What it answers are facts and lies in healthcheck.model."""

import os
from typing import Any

import msgspec

from healthcheck.model.allreduce import (
    AllreduceEnd,
    AllreduceRank,
    AllreduceResult,
    BusBandwidth,
    LoadSample,
    PathRun,
    RankCompute,
    Suspect,
    WrongBits,
)

__all__ = [
    "AllreduceEnd", "AllreduceRank", "AllreduceResult", "BusBandwidth", "GpuPlace", "LoadSample",
    "PathRun", "Plan", "RankCompute", "Suspect", "WrongBits",
]  # fmt: skip

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker", "run.py")
LOOPBACK = "127.0.0.1"


class GpuPlace(msgspec.Struct, frozen=True):
    """A GPU that a rank of this node runs on."""

    index: int
    uuid: str | None
    bus_id: str
    name: str | None = None
    memory_bytes: int | None = None


class Plan(msgspec.Struct, frozen=True):
    """One run of the test, as this node takes part in it.

    `ranks` in the whole group, of which `local` run here, numbered from `first`. The group meets
    at a store on `store_host`:`store_port` (port 0: any free one, for one node alone), which this
    node serves, bound to `bind`, where `serve` is set. `cases` are (op, dtype, elements). Times
    in seconds: `timeout_s` for one collective, `join_s` for everybody to show up.
    """

    backend: str
    ranks: int
    local: int
    depth: str
    cases: tuple[tuple[str, str, int], ...]
    sizes: tuple[int, ...]
    dtype: str
    warmups: int
    iterations: int
    matmul: int
    rounds: int
    random_count: int
    seed: int
    first: int = 0
    node: str | None = None
    store_host: str = LOOPBACK
    store_port: int = 0
    serve: bool = True
    bind: str = LOOPBACK
    timeout_s: float = 20.0
    join_s: float = 30.0
    gpus: tuple[GpuPlace, ...] = ()
    path: str | None = None
    env: dict[str, str] = {}
    """What the child sets besides before it touches a device."""

    def message(self) -> dict[str, Any]:
        """What the child is told.

        One node alone talks over the loopback interface, where the site does not say otherwise:
        then no name is resolved and no network is needed.
        """
        loopback = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
        return {
            "defaults": loopback if self.ranks == self.local else {},
            "backend": self.backend, "ranks": self.ranks, "local": self.local,
            "first": self.first, "node": self.node, "cases": self.cases, "sizes": self.sizes,
            "dtype": self.dtype, "warmups": self.warmups, "iterations": self.iterations,
            "matmul": self.matmul, "rounds": self.rounds, "random_count": self.random_count,
            "env": self.env, "seed": self.seed, "timeout_s": self.timeout_s, "join_s": self.join_s,
            "store": {
                "host": self.store_host, "port": self.store_port, "serve": self.serve,
                "bind": self.bind,
            },
        }  # fmt: skip
