"""Modes of a GPU: persistence, ECC, MIG."""

from collections.abc import Iterator

import msgspec

from healthcheck.checks._gpus import NODE, common_cause, readable, supporting
from healthcheck.model import Action, Finding, Gpu, NotApplicable, Snapshot, fail, warn
from healthcheck.registry import NoLimits, check


@check("gpu-persistence", needs=("gpus",), source="NVIDIA driver persistence documentation")
def gpu_persistence(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """Persistence mode is on.

    What it means: without it the driver lets go of a GPU when nobody uses it. Each job then waits
    1 to 3 s a GPU, and the volatile error counters are lost between jobs.

    What we do: warn.

    What to do: run nvidia-persistenced (`systemctl enable --now nvidia-persistenced`).
    """
    gpus = supporting(node, "persistence_mode")
    off = [gpu for gpu in gpus if not gpu.persistence_mode]
    subjects = [NODE] if common_cause(off, gpus) else [gpu.bus_id for gpu in off]
    where = f" on all {len(gpus)} GPUs" if common_cause(off, gpus) else ""
    for subject in subjects:
        yield warn(
            subject,
            f"persistence mode is off{where}, expected on: jobs start slowly, error counters are "
            "lost between them",
            measured=False,
            expected=True,
        )


class ModeLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The modes that GPUs of this type must have; none stated: only pending changes count."""

    ecc: bool | None = None
    mig: bool | None = None


@check(
    "gpu-modes",
    needs=("gpus",),
    limits=ModeLimits,
    source="nvmlDeviceGetEccMode and nvmlDeviceGetMigMode: a change waits for a reset",
)
def gpu_modes(node: Snapshot, limits: ModeLimits) -> Iterator[Finding]:
    """ECC and MIG are as the profile says, and no change of them waits for a reset.

    What it means: with ECC off, memory errors are silent. A GPU cut up by MIG, or one that is
    not where the site uses it, is not what the scheduler hands out.

    What we do: fail where the mode is not the profile's, warn where a change is pending.

    What to do: `nvidia-smi -e 1`, `nvidia-smi -mig 0`, then reset the GPU when it is idle.
    """
    gpus = [g for g in readable(node) if g.ecc_enabled is not None or g.mig_enabled is not None]
    if not gpus:
        raise NotApplicable("no GPU here has ECC or MIG modes")
    for mode in ("ecc", "mig"):
        wanted = getattr(limits, mode)
        known = [gpu for gpu in gpus if getattr(gpu, f"{mode}_enabled") is not None]
        wrong = [
            gpu
            for gpu in known
            if wanted is not None and getattr(gpu, f"{mode}_enabled") is not wanted
        ]
        if common_cause(wrong, known):
            yield _wrong(NODE, mode, wanted, f" on all {len(known)} GPUs")
        else:
            for gpu in wrong:
                yield _wrong(gpu.bus_id, mode, wanted, "")
        for gpu in known:
            if gpu not in wrong:
                yield from _pending(gpu, mode)


def _wrong(subject: str, mode: str, wanted: bool, where: str) -> Finding:
    return fail(
        subject,
        f"{mode.upper()} is {_word(not wanted)}{where}, expected {_word(wanted)}",
        measured=not wanted,
        expected=wanted,
        action=Action.RESET_GPU,
        limit=mode,
    )


def _pending(gpu: Gpu, mode: str) -> Iterator[Finding]:
    now, later = getattr(gpu, f"{mode}_enabled"), getattr(gpu, f"{mode}_pending")
    if later is not None and now is not later:
        yield warn(
            gpu.bus_id,
            f"{mode.upper()} is {_word(now)} and will be {_word(later)} after the next reset",
            measured=now,
            expected=later,
            action=Action.RESET_GPU,
        )


def _word(value: bool) -> str:
    return "on" if value else "off"
