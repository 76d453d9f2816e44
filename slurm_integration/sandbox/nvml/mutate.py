"""Faults by name: pure functions from one simulated machine to a sicker one."""

from typing import Any

import msgspec

from slurm_integration.sandbox.nvml.model import Effect, SimulatedFault, SimulatedNvml


def with_gpu(nvml: SimulatedNvml, gpu: int, **changes: Any) -> SimulatedNvml:
    """GPU number `gpu` with these fields of `SimulatedGpu` changed."""
    gpus = list(nvml.gpus)
    gpus[gpu] = msgspec.structs.replace(gpus[gpu], **changes)
    return msgspec.structs.replace(nvml, gpus=tuple(gpus))


def with_link(nvml: SimulatedNvml, gpu: int, link: int, **changes: Any) -> SimulatedNvml:
    """One NVLink of one GPU with these fields of `SimulatedNvLink` changed."""
    links = list(nvml.gpus[gpu].nvlinks)
    links[link] = msgspec.structs.replace(links[link], **changes)
    return with_gpu(nvml, gpu, nvlinks=tuple(links))


def without_gpu(nvml: SimulatedNvml, gpu: int) -> SimulatedNvml:
    """The driver no longer lists this GPU; those after it move up.

    Handles that callers hold keep their GPU; the missing one's answers GPU_IS_LOST.

    Raises:
        ValueError: a fault or P2P answer still names a place from `gpu` on.
    """
    named = [f.gpu for f in nvml.faults if f.gpu is not None]
    named += [index for pair in nvml.p2p for index in pair.gpus]
    if any(index >= gpu for index in named):
        raise ValueError(f"faults or p2p answers name GPUs from {gpu} on: take them out first")
    return msgspec.structs.replace(nvml, gpus=nvml.gpus[:gpu] + nvml.gpus[gpu + 1 :])


def with_fault(nvml: SimulatedNvml, *faults: SimulatedFault) -> SimulatedNvml:
    """These faults in front of those there are, so that they win."""
    return msgspec.structs.replace(nvml, faults=(*faults, *nvml.faults))


def returning(symbol: str, code: int, gpu: int | None = None) -> SimulatedFault:
    """The call answers this nvmlReturn."""
    return SimulatedFault(symbol=symbol, gpu=gpu, return_code=code)


def behaving(symbol: str, effect: Effect, gpu: int | None = None) -> SimulatedFault:
    """The call hangs, aborts or is missing."""
    return SimulatedFault(symbol=symbol, gpu=gpu, effect=effect)


def lost(gpu: int) -> SimulatedFault:
    """Every call about this GPU answers NVML_ERROR_GPU_IS_LOST; it is still counted."""
    return returning("*", 15, gpu)
