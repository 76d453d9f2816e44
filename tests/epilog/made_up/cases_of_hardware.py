"""The network, the node and its GPUs."""

from collections.abc import Iterator

from job_wordings import ERRORS, Job, shuffled, torchrun_table, traceback, wait

from epilog.model import Drain


def port_error(host: str) -> str:
    return (
        f"{host}:34050:34121 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_1:1 Got async "
        "event : port error"
    )


def retry(host: str, peer: str, rest: str = "error 12, opcode 2, len 1, vendor err 129") -> str:
    return (
        f"{host}:73076:73185 [4] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion from "
        f"peer {peer}<37948> with {rest}"
    )


def network() -> Iterator[Job]:
    yield Job(
        "a port that fails and its victims",
        shuffled([port_error("gpu07"), retry("gpu01", "gpu07"), retry("gpu02", "gpu07")], 1),
        "network/ib-link",
        (),
        ("gpu07",),
        Drain.REVIEW,
    )
    yield Job(
        "ports of two nodes",
        shuffled([port_error("gpu07"), port_error("gpu08"), retry("gpu01", "gpu07")], 2),
        "network/ib-link",
        drain=Drain.NO,
    )
    flush = "status=5 opcode=32656 len=32659 vendor err 249 (Recv)"
    yield Job(
        "votes for a peer, flush errors do not vote",
        "\n".join(
            [
                retry("gpu01", "10.0.0.9"),
                retry("gpu02", "10.0.0.9"),
                retry("gpu03", "10.0.0.4"),
                *(retry("gpu03", "10.0.0.4", flush) for _ in range(9)),
            ]
        ),
        "network/ib-retry",
        (),
        ("10.0.0.9",),
        Drain.REVIEW,
        most=0.7,
    )
    yield Job(
        "the same set-up error everywhere",
        "\n".join(
            retry(f"gpu0{n}", f"fe80::{n}%ib0", "error 4, opcode 32, len 32, vendor err 81 (Send)")
            for n in range(1, 6)
        ),
        "network/config",
        most=0.7,
    )
    yield Job(
        "store time-out with one absent",
        "\n".join(
            f"[rank{r}]: RuntimeError: Timed out initializing process group in store based barrier "
            f"on rank: {r}, for key: store_based_barrier_key:1 (world_size=8, worker_count=7, "
            "timeout=0:30:00)"
            for r in range(8)
            if r != 6
        ),
        "network/rendezvous",
        (6,),
        ("gpu02",),
        Drain.REVIEW,
        given=("gpu01", "gpu02"),
        tasks=4,
    )
    yield Job(
        "JAX tasks that did not come",
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
        "PjRT_Client_Connect. Timed out task names:\n/job:jax_worker/replica:0/task:3\n",
        "network/rendezvous",
        (3,),
        drain=Drain.REVIEW,
    )


def stamp(text: str) -> str:
    return f"[Tue Dec  1 03:10:00 2026] {text}\n"


XID = "NVRM: Xid (PCI:0000:{}:00): {}, pid=4711, name=python, {}"


OFF_BUS = stamp(XID.format("b3", 79, "GPU has fallen off the bus."))


NVLINK = (
    stamp(XID.format("48", 45, "channel 0x10"))
    + stamp(XID.format("48", 74, "NVLink: fatal error detected on link 8(0x0, 0x0)"))
    + stamp(XID.format("0b", 119, "Timeout waiting for RPC from GSP! Expected function 76"))
)


def hardware() -> Iterator[Job]:
    log = shuffled(wait("torch-2.7", 16, silent=(9,)), 3)
    nodes = ("gpu01", "gpu02")
    yield Job(
        "a GPU off the bus behind time-outs",
        log,
        "hardware/gpu-off-bus",
        (9,),
        ("gpu02",),
        Drain.YES,
        nodes,
        8,
        kernel=(("gpu02", OFF_BUS),),
        least=0.9,
    )
    yield Job(
        "a fake Xid in the job's log",
        "NVRM: Xid (PCI:0000:b3:00): 79, pid=1, name=python, GPU has fallen off the bus.\n",
        "hardware/gpu-off-bus",
        drain=Drain.REVIEW,
        most=0.7,
    )
    yield Job(
        "NVLink before the GSP it took along",
        "",
        "hardware/gpu-nvlink",
        None,
        ("gpu01",),
        Drain.YES,
        kernel=(("gpu01", NVLINK),),
        most=0.7,
    )
    yield Job(
        "the same Xid on two nodes",
        log,
        "hardware/gpu-off-bus",
        None,
        drain=Drain.REVIEW,
        given=nodes,
        tasks=8,
        kernel=(("gpu01", OFF_BUS), ("gpu02", OFF_BUS)),
    )
    yield Job(
        "a contained memory error, once",
        traceback("[rank1]: ", ERRORS["hardware/gpu-ecc"]),
        "hardware/gpu-ecc",
        (1,),
        drain=Drain.REVIEW,
        kernel=(("gpu01", stamp(XID.format("1b", 94, "Contained: SM (0x1)"))),),
    )
    yield Job(
        "an illegal access that the kernel saw too",
        traceback("[rank1]: ", ERRORS["user/illegal-access"]),
        "user/illegal-access",
        (1,),
        drain=Drain.NO,
        kernel=(("gpu01", stamp(XID.format("1b", 31, "Ch 00000010, intr 10000000. MMU Fault"))),),
    )
    yield Job(
        "corrected PCIe errors are not the cause",
        traceback("[rank1]: ", ERRORS["user/cuda-oom"]),
        "user/cuda-oom",
        (1,),
        kernel=(
            ("gpu01", stamp("pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0")),
        ),
    )
    yield Job(
        "the kernel's own word on memory",
        torchrun_table(1, "gpu01", -9, 1),
        "user/host-oom",
        (1,),
        ("gpu01",),
        kernel=(
            (
                "gpu01",
                stamp("Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB"),
            ),
        ),
    )
    yield Job(
        "an uncorrected memory error of the host",
        "",
        "hardware/host-memory",
        nodes=("gpu01",),
        drain=Drain.YES,
        kernel=(
            ("gpu01", stamp("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0")),
        ),
    )
