"""Why the clocks are low: heat, or the power supply's brake.

The reasons are bits of one mask. 0x1 (idle), 0x2 (clocks set), 0x10 (sync boost) and, under
load, 0x4 (power cap) are normal.
"""

from collections.abc import Iterator

from healthcheck.checks._gpus import NODE, common_cause, gather, readable, seen, sustained
from healthcheck.model import Action, Finding, Gpu, NotApplicable, Snapshot, fail, warn
from healthcheck.registry import NoLimits, check

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
_SOURCE = "nvmlClocksEventReasons of NVIDIA's NVML API reference"


def _sampled(node: Snapshot) -> tuple[Gpu, ...]:
    gpus = tuple(gpu for gpu in readable(node) if gpu.clock_event_reasons)
    if not gpus:
        raise NotApplicable("no GPU here tells why its clocks are low")
    return gpus


@check("gpu-throttle", needs=("gpus",), source=_SOURCE)
def gpu_throttle(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """No GPU is slowed down by heat or by an unnamed hardware slowdown.

    What it means: a GPU that slows down makes every GPU of its job wait.

    What we do: a first suspicious sample is followed by two more within two seconds. Hardware
    thermal slowdown in two thirds of them is a failure, once a warning; software thermal slowdown
    and an unnamed hardware slowdown are warnings. The power brake has a check of its own.

    What to do: one GPU: heat sink or seating. All: fans, air flow, liquid loop, room.
    """
    gpus = _sampled(node)
    hot = [g for g in gpus if seen(g.clock_event_reasons, HW_THERMAL)]
    if common_cause(hot, gpus):
        steady = all(sustained(g.clock_event_reasons, HW_THERMAL) for g in hot)
        yield _thermal(NODE, steady, f"on all {len(gpus)} GPUs: look at the node's cooling")
    else:
        for gpu in hot:
            samples = gpu.clock_event_reasons
            yield _thermal(gpu.bus_id, sustained(samples, HW_THERMAL), _share(samples, HW_THERMAL))
    mild = [finding for gpu in gpus if gpu not in hot for finding in _mild(gpu)]
    yield from gather(mild, gpus)


def _share(samples: tuple[int, ...], bits: int) -> str:
    return f"in {seen(samples, bits)} of {len(samples)} samples"


def _thermal(subject: str, steady: bool, where: str) -> Finding:
    return (fail if steady else warn)(
        subject,
        f"hardware thermal slowdown (0x40) {where}: clocks are cut by half or more",
        measured="hw-thermal-slowdown",
        expected="none",
        action=Action.DRAIN if steady else Action.NONE,
    )


def _mild(gpu: Gpu) -> Iterator[Finding]:
    """At most one warning."""
    samples = gpu.clock_event_reasons
    if seen(samples, SW_THERMAL):
        what, name, bits = "software thermal slowdown (0x20)", "sw-thermal-slowdown", SW_THERMAL
    elif seen(samples, HW_SLOWDOWN) and not seen(samples, POWER_BRAKE):
        what, name, bits = "hardware slowdown of no named cause (0x8)", "hw-slowdown", HW_SLOWDOWN
    else:
        return
    yield warn(
        gpu.bus_id,
        f"{what} {_share(samples, bits)}: the GPU runs below its speed",
        measured=name,
        expected="none",
    )


@check("gpu-power-brake", needs=("gpus",), source=_SOURCE)
def gpu_power_brake(node: Snapshot, limits: NoLimits) -> Iterator[Finding]:
    """No GPU's power brake is on.

    What it means: the server pulls a signal that halves the clocks when its power supply cannot
    feed the GPUs. One GPU: its cable, slot or board. All GPUs at once: the node's power supply.

    What we do: fail where two thirds of at least three samples show it, warn for less; all GPUs
    at once are one finding about the node.

    What to do: look at the power supplies (ipmitool sdr type "Power Supply"), at the rack's
    power limit and cabling; for one GPU at its own power connection.
    """
    gpus = _sampled(node)
    braked = [gpu for gpu in gpus if seen(gpu.clock_event_reasons, POWER_BRAKE)]
    if common_cause(braked, gpus):
        steady = all(sustained(gpu.clock_event_reasons, POWER_BRAKE) for gpu in braked)
        yield _brake(
            NODE,
            steady,
            f"the power brake is on at all {len(gpus)} GPUs at once: the node's power supply does "
            "not deliver what they need",
        )
        return
    for gpu in braked:
        samples = gpu.clock_event_reasons
        yield _brake(
            gpu.bus_id,
            sustained(samples, POWER_BRAKE),
            f"the power brake is on {_share(samples, POWER_BRAKE)}: the GPU's own power feed is "
            "short and its clocks are halved",
        )


def _brake(subject: str, steady: bool, message: str) -> Finding:
    return (fail if steady else warn)(
        subject,
        message,
        measured="hw-power-brake-slowdown",
        expected="none",
        action=Action.DRAIN if steady else Action.NONE,
    )
