"""Time-outs of the watchdog: who did not come, over one group and over chains of groups."""

from collections.abc import Iterator

from job_wordings import Job, shuffled, torchrun_table, wait

ABORTS = "\n".join(
    f"[rank{r}]:[E1201 03:15:10.{r:09d} ProcessGroupNCCL.cpp:758] [Rank {r}] To avoid data "
    "inconsistency, we are taking the entire process down."
    for r in (0, 3, 5)
)


def timeouts() -> Iterator[Job]:
    for seed, (version, world, late) in enumerate(
        (
            ("torch-2.4", 8, (3,)),
            ("torch-2.5", 16, (11,)),
            ("torch-2.7", 8, (0,)),
            ("torch-2.7", 32, (17, 18)),
            ("torch-2.5", 4, (2,)),
        )
    ):
        log = shuffled(wait(version, world, late), seed) + ABORTS
        log += "\n" + torchrun_table(1, "node02", -6, 1)
        yield Job(f"late {version} {late} of {world}", log, "user/desync", late)
    for seed, (version, world, gone) in enumerate(
        (("torch-2.4", 8, 5), ("torch-2.5", 16, 0), ("torch-2.7", 8, 7), ("torch-2.7", 64, 40))
    ):
        log = shuffled(wait(version, world, silent=(gone,)), seed)
        nodes = tuple(f"gpu{n:02d}" for n in range(1, world // 8 + 1)) if world > 8 else ("gpu01",)
        yield Job(
            f"silent {version} {gone} of {world}",
            log,
            "unknown/hang",
            (gone,),
            (nodes[gone // 8],),
            given=nodes,
            tasks=8,
            most=0.5,
        )
    log = shuffled(wait("torch-2.7", 8, op=lambda r: "ALLGATHER" if r == 6 else "ALLREDUCE"), 1)
    yield Job("another operation", log, "user/desync", (6,))
    log = shuffled(wait("torch-2.5", 16, numel=lambda r: 4095 if r == 9 else 4096), 2)
    yield Job("another size", log, "user/desync", (9,))
    log = shuffled(wait("torch-2.4", 2, numel=lambda r: 100 + r), 3)
    yield Job("a tie of two", log, "user/desync", (0, 1), most=0.7)
    log = shuffled(wait("torch-2.7", 8), 4)
    yield Job("all had joined", log, "unknown/nccl-timeout", (), most=0.5)
    old = "\n".join(
        f"[E ProcessGroupNCCL.cpp:828] [Rank {r}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum=77, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800{r:03d} "
        "milliseconds before timing out."
        for r in range(8)
        if r != 4
    )
    yield Job(
        "silent torch-1.13", old, "unknown/hang", (4,), ("n1",), given=("n1",), tasks=8, most=0.5
    )


def chains() -> Iterator[Job]:
    # Ranks 2 and 3 are late in the default group because they wait in their own group, where
    # rank 3 had not come: everything waits for rank 3.
    lines = wait("torch-2.7", 8, late=(2, 3))
    lines += wait("torch-2.7", 8, members=(2,), seq=51, group="5(tensor)")
    lines.append(
        "[rank3]:[E1201 03:14:11.000000000 ProcessGroupNCCL.cpp:1858] [PG ID 2 PG GUID 5(tensor) "
        "Rank 1] Received a dump signal due to a collective timeout from  rank 0 and we will try "
        "our best to dump the debug info. Last enqueued NCCL work: 50, last completed NCCL work: "
        "50."
    )
    yield Job("chain to another group", shuffled(lines, 7), "user/desync", (3,))
