"""How much is tested: quick and full, on GPUs and on CPUs, and how a plan is made of it."""

import os
from collections.abc import Sequence

import msgspec

from healthcheck.allreduce.model import GpuPlace, Plan
from healthcheck.allreduce.sizes import GIB, KIB, MIB, WORD

ODD = 1021
"""Elements of the smallest case: no multiple of anything, and short enough for NCCL's LL."""
ALL_OPS = (
    ("sum", "int32"), ("max", "int32"), ("sum", "float32"), ("sum", "float16"),
    ("sum", "bfloat16"), ("avg", "float32"), ("avg", "bfloat16"), ("avg", "float16"),
    ("max", "float32"), ("max", "float16"), ("max", "bfloat16"),
)  # fmt: skip
QUICK_OPS = (
    ("sum", "float32"), ("sum", "float16"), ("sum", "bfloat16"), ("avg", "float32"),
    ("max", "float32"),
)  # fmt: skip


class Shape(msgspec.Struct, frozen=True):
    """Sizes in bytes, `elements` of each verified case, `matmul` the side of the matrices."""

    sizes: tuple[int, ...]
    dtype: str
    warmups: int
    iterations: int
    ops: tuple[tuple[str, str], ...]
    elements: int
    matmul: int
    rounds: int
    random_count: int
    expected_s: float
    """How long it takes where nothing is known yet: most of it is importing torch and CUDA."""


SHAPES = {
    ("nccl", "quick"): Shape((GIB,), "bfloat16", 5, 20, QUICK_OPS, 16 * MIB, 4096, 20, 4 * MIB, 25),
    ("nccl", "full"): Shape(
        (MIB, 16 * MIB, 256 * MIB, GIB, 8 * GIB, 16 * GIB),
        "bfloat16", 5, 20, ALL_OPS, 64 * MIB, 8192, 50, 16 * MIB, 90,
    ),
    ("gloo", "quick"): Shape(
        (16 * MIB,), "float32", 1, 5, QUICK_OPS, 64 * KIB, 256, 2, 64 * KIB, 15
    ),
    ("gloo", "full"): Shape(
        (MIB, 16 * MIB, 64 * MIB), "float32", 2, 10, ALL_OPS, MIB, 512, 5, 256 * KIB, 90
    ),
}  # fmt: skip


def make_plan(
    backend: str,
    depth: str,
    ranks: int,
    *,
    gpus: Sequence[GpuPlace] = (),
    sizes: Sequence[int] | None = None,
    timeout_s: float = 20.0,
    seed: int | None = None,
    node: str | None = None,
) -> Plan:
    """A plan for one node alone: `ranks` ranks, one a GPU where there are GPUs.

    `sizes` (bytes) replace those of the shape that fit into a third of the memory. The data are
    fresh each time; `seed` repeats an earlier run's. For several nodes, replace `ranks`, `first`,
    `store_*`, `serve` and `bind`.
    """
    shape = SHAPES[backend, depth]
    room = min((gpu.memory_bytes for gpu in gpus if gpu.memory_bytes), default=64 * GIB) // 3
    chosen = tuple(sizes) if sizes else tuple(size for size in shape.sizes if size <= room)
    words = [ODD, *dict.fromkeys([shape.elements, *(max(1, size // WORD) for size in chosen)])]
    cases = [("sum", "int32", count) for count in words]
    cases += [(op, dtype, shape.elements) for op, dtype in shape.ops if (op, dtype) != QUICK_SUM]
    return Plan(
        backend=backend,
        ranks=ranks,
        local=ranks,
        depth=depth,
        cases=tuple(cases),
        sizes=chosen,
        dtype=shape.dtype,
        warmups=shape.warmups,
        iterations=shape.iterations,
        matmul=shape.matmul,
        rounds=shape.rounds,
        random_count=shape.random_count,
        seed=int.from_bytes(os.urandom(8), "little") if seed is None else seed,
        node=node,
        gpus=tuple(gpus),
        timeout_s=timeout_s,
    )


QUICK_SUM = ("sum", "int32")
"""Always there, at every size."""
