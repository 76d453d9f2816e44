"""Heat, power and clocks."""

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import edit_gpu, edit_gpus, gpu_of
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass
from slurm_integration.sandbox.machine.description import Machine

_IDLE, _APPLICATION, _POWER_CAP, _SLOWDOWN = 0x1, 0x2, 0x4, 0x8
_SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x20, 0x40, 0x80
_BUSY = {"utilization_gpu": 100, "utilization_memory": 60}


@fault("power-brake-one", "gpu-power-brake", action=Action.DRAIN)
def power_brake_one(machine: Machine, target: Target) -> Machine:
    """The power supply holds one GPU's clocks down (power brake)."""
    return edit_gpu(machine, target, clocks_event_reasons=_POWER_BRAKE | _SLOWDOWN)


@fault("power-brake-all", "gpu-power-brake", action=Action.DRAIN)
def power_brake_all(machine: Machine, target: Target) -> Machine:
    """The power brake holds all GPUs at once: one finding, about the power supply."""
    return edit_gpus(machine, clocks_event_reasons=_POWER_BRAKE | _SLOWDOWN)


@fault("thermal-slowdown", "gpu-throttle", action=Action.DRAIN,
       also=("gpu-temperature", "gpu-thermal-margin"))  # fmt: skip
def thermal_slowdown(machine: Machine, target: Target) -> Machine:
    """The GPU has reached its slowdown temperature and halves its clocks."""
    hot = gpu_of(machine, target).threshold_slowdown_c or 89
    return edit_gpu(machine, target, temperature_c=hot, margin_temperature_c=0,
                    clocks_event_reasons=_HW_THERMAL | _SLOWDOWN)  # fmt: skip


@fault("gpu-hot", "gpu-temperature", action=Action.DRAIN, also=("gpu-thermal-margin",),
       not_on=("b200-sxm", "gb200-tray", "l40s-pcie"))  # fmt: skip
def gpu_hot(machine: Machine, target: Target) -> Machine:
    """The GPU is as hot as it may never be, and does not slow down yet."""
    hot = gpu_of(machine, target).threshold_shutdown_c or 92
    return edit_gpu(machine, target, temperature_c=hot, margin_temperature_c=1)


@fault("gpu-margin-gone", "gpu-thermal-margin", action=Action.DRAIN)
def gpu_margin_gone(machine: Machine, target: Target) -> Machine:
    """No degree is left before the GPU slows down (a hot spot: the mean is moderate)."""
    return edit_gpu(machine, target, margin_temperature_c=-1)


@fault("clocks-low-under-load", "gpu-clocks", action=Action.DRAIN)
def clocks_low_under_load(machine: Machine, target: Target) -> Machine:
    """The GPU is fully busy at a quarter of its clock."""
    return edit_gpu(machine, target, **_BUSY, sm_clock_mhz=480, clocks_event_reasons=0)


@fault("enforced-limit-low", "gpu-power-limit", action=Action.DRAIN)
def enforced_limit_low(machine: Machine, target: Target) -> Machine:
    """The GPU gets less power than was asked for: something limits it from outside."""
    limit = gpu_of(machine, target).power_limit_mw or 0
    return edit_gpu(machine, target, power_enforced_limit_mw=limit // 2)


@fault("power-limit-low", "gpu-power-limit", Severity.WARN)
def power_limit_low(machine: Machine, target: Target) -> Machine:
    """Somebody set the GPU's power limit to half and never set it back."""
    limit = (gpu_of(machine, target).power_default_limit_mw or 0) // 2
    return edit_gpu(machine, target, power_limit_mw=limit, power_enforced_limit_mw=limit)


@fault("power-source-undersized", "gpu-power-limit", action=Action.DRAIN)
def power_source_undersized(machine: Machine, target: Target) -> Machine:
    """NVML says that the GPU's power source is too small."""
    return edit_gpu(machine, target, power_source=2)


@must_pass("power-cap-under-load")
def power_cap_under_load(machine: Machine, target: Target) -> Machine:
    """All GPUs run at their power limit: what a busy node does."""
    limit = gpu_of(machine, target).power_limit_mw
    clock = int((gpu_of(machine, target).max_sm_clock_mhz or 0) * 0.85)
    return edit_gpus(machine, **_BUSY, clocks_event_reasons=_POWER_CAP, power_usage_mw=limit,
                     sm_clock_mhz=clock, temperature_c=64, memory_temperature_c=None,
                     margin_temperature_c=23)  # fmt: skip


@must_pass("idle-gen1")
def idle_gen1(machine: Machine, target: Target) -> Machine:
    """All GPUs idle with their PCIe link at Gen1, to save power."""
    from msgspec.structs import replace

    slow = tuple(replace(f, speed_gt_s=2.5) if f.role == "gpu" else f for f in machine.pci)
    return edit_gpus(replace(machine, pci=slow), pcie_generation=1,
                     clocks_event_reasons=_IDLE, sm_clock_mhz=210)  # fmt: skip
