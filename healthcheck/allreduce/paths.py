"""The paths between the GPUs of a node, one by one: how to force each, and whether it was taken.

Without NCCL_NET=IB a dead adapter makes NCCL fall back to sockets and pass slowly; without a look
at the log a path that NCCL silently left would be called healthy.
"""

from collections.abc import Callable, Sequence

import msgspec

from healthcheck.allreduce.nccl_log import NcclLog

DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,P2P,SHM,NET,NVLS,TUNING"}


class Path(msgspec.Struct, frozen=True):
    """A path: the variables that force it, and what in the log proves it."""

    name: str
    title: str
    env: dict[str, str]
    proof: Callable[[NcclLog], str | None]


def environment(name: str, adapters: Sequence[str] = ()) -> dict[str, str]:
    """The variables for one path; `adapters` (`mlx5_0:1`) are the ports for the NIC loopback."""
    env = {**PATHS[name].env, **DEBUG}
    if name == "nic" and adapters:
        env["NCCL_IB_HCA"] = "=" + ",".join(adapters)
    return env


def confirm(name: str, log: NcclLog) -> tuple[bool, str]:
    """Whether the log proves that this path was taken, and the words for it."""
    proof = PATHS[name].proof(log)
    if proof is not None:
        return True, proof
    used = ", ".join(f"{n} × {t}" for t, n in sorted(log.transports.items())) or "no channel"
    chosen = ", ".join(sorted(set(log.algorithms.values()))) or "no algorithm named"
    return False, f"not confirmed by NCCL's log: it shows {used}; {chosen}"


def _nvls(log: NcclLog) -> str | None:
    sizes = [size for size, algorithm in log.algorithms.items() if algorithm.startswith("NVLS")]
    if sizes:
        return f"NCCL chose NVLS for {max(sizes)} bytes"
    # Releases that name no algorithm still tell how many channels go through the switches.
    if not log.algorithms and log.nvls_channels:
        return f"{log.nvls_channels} NVLS channels"
    return None


def _ring(log: NcclLog) -> str | None:
    if not log.algorithms or set(log.algorithms.values()) != {"RING"}:
        return None
    return f"NCCL chose RING for all {len(log.algorithms)} sizes"


def _only(transport: str) -> Callable[[NcclLog], str | None]:
    def proof(log: NcclLog) -> str | None:
        if set(log.transports) != {transport}:
            return None
        return f"all {log.transports[transport]} channels via {transport}"

    return proof


PATHS = {
    path.name: path
    for path in (
        Path("nvls", "NVLink SHARP in the switches (NCCL's default there)", {}, _nvls),
        Path("ring", "rings over NVLink or PCIe",
             {"NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Ring"}, _ring),
        Path("p2p", "direct between GPUs over NVLink only",
             {"NCCL_NVLS_ENABLE": "0", "NCCL_P2P_LEVEL": "NVL"}, _only("P2P")),
        Path("shm", "through the host's shared memory",
             {"NCCL_NVLS_ENABLE": "0", "NCCL_P2P_DISABLE": "1"}, _only("SHM")),
        Path("nic", "out of and back into the InfiniBand adapters",
             {"NCCL_NVLS_ENABLE": "0", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
              "NCCL_NET": "IB"}, _only("NET/IB")),
    )
}  # fmt: skip
"""Settings as in NCCL's environment variable documentation."""
