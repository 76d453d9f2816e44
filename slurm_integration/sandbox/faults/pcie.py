"""PCIe links, and what the kernel counts and says about them."""

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import (
    edit_gpu,
    edit_pci,
    function_of,
    gpu_of,
    log,
    root_port_of,
)
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass, unchanged
from slurm_integration.sandbox.machine.description import Machine

_TRAY = ("gb200-tray",)
"""Its profile sets no PCIe width and generation."""


@fault("pcie-width-x8", "pcie-width", action=Action.REBOOT, not_on=_TRAY)
def pcie_width_x8(machine: Machine, target: Target) -> Machine:
    """The GPU's link runs at 8 lanes of 16."""
    narrow = edit_pci(machine, gpu_of(machine, target).bus_id, width=8)
    return edit_gpu(narrow, target, pcie_width=8)


@fault("nic-width-x8", "pcie-width", action=Action.REBOOT, needs=("ib",), not_on=_TRAY)
def nic_width_x8(machine: Machine, target: Target) -> Machine:
    """A network card's link runs at 8 lanes of 16."""
    return edit_pci(machine, machine.hcas[target.hca].bus_id, width=8)


@fault("pcie-gen-low-under-load", "pcie-generation", action=Action.REBOOT, not_on=_TRAY)
def pcie_gen_low_under_load(machine: Machine, target: Target) -> Machine:
    """The GPU is busy, and its link stays at Gen1."""
    slow = edit_pci(machine, gpu_of(machine, target).bus_id, speed_gt_s=2.5)
    return edit_gpu(slow, target, pcie_generation=1, utilization_gpu=100,
                    sm_clock_mhz=gpu_of(machine, target).max_sm_clock_mhz)  # fmt: skip


@fault("pcie-gen-capped", "pcie-generation", action=Action.REPLACE, not_on=_TRAY)
def pcie_gen_capped(machine: Machine, target: Target) -> Machine:
    """The slot above the GPU offers only Gen3: a bad riser, or a firmware setting."""
    bus_id = gpu_of(machine, target).bus_id
    above = function_of(machine, bus_id).parent
    assert above is not None
    capped = edit_pci(machine, above, speed_gt_s=8.0, speed_max_gt_s=8.0)
    capped = edit_pci(capped, bus_id, speed_gt_s=8.0)
    return edit_gpu(capped, target, pcie_generation=3, pcie_max_generation=3)


@fault("pcie-replay-storm", "pcie-replay", Severity.WARN)
def pcie_replay_storm(machine: Machine, target: Target) -> Machine:
    """The GPU's PCIe packets are sent again hundreds of times a minute."""
    return edit_gpu(machine, target, pcie_replay_counter=40_000)


@fault("aer-fatal", "pcie-aer", action=Action.REBOOT)
def aer_fatal(machine: Machine, target: Target) -> Machine:
    """The GPU's PCIe link had a fatal error since the last look."""
    return edit_pci(machine, gpu_of(machine, target).bus_id, aer_fatal={"DLP": 1})


@fault("aer-nonfatal", "pcie-aer", action=Action.DRAIN)
def aer_nonfatal(machine: Machine, target: Target) -> Machine:
    """The GPU's PCIe link had completion time-outs since the last look."""
    return edit_pci(machine, gpu_of(machine, target).bus_id, aer_nonfatal={"CmpltTO": 3})


@fault("aer-fatal-upstream", "pcie-aer", action=Action.REBOOT)
def aer_fatal_upstream(machine: Machine, target: Target) -> Machine:
    """The root port above the GPU counts the fatal error, not the GPU."""
    port = root_port_of(machine, gpu_of(machine, target).bus_id)
    return edit_pci(machine, port.bus_id, aer_fatal={"SDES": 1})


@fault("aer-correctable-storm", "pcie-aer", Severity.WARN)
def aer_correctable_storm(machine: Machine, target: Target) -> Machine:
    """Thousands of corrected errors on the GPU's PCIe link since the last look."""
    return edit_pci(
        machine, gpu_of(machine, target).bus_id, aer_correctable={"RxErr": 8122, "BadTLP": 911}
    )


def _old_aer(machine: Machine, target: Target) -> Machine:
    return edit_pci(
        machine, gpu_of(machine, target).bus_id, aer_correctable={"Timeout": 40_211},
        aer_fatal={"SDES": 1},
    )  # fmt: skip


@must_pass("aer-old", past=_old_aer)
def aer_old(machine: Machine, target: Target) -> Machine:
    """PCIe errors that are all older than the last look."""
    return unchanged(machine, target)


@fault("pcie-surprise-down", "kernel-pcie", action=Action.REBOOT)
def pcie_surprise_down(machine: Machine, target: Target) -> Machine:
    """The kernel log tells that the link to the GPU went down by surprise."""
    above = function_of(machine, gpu_of(machine, target).bus_id).parent
    return log(
        machine,
        f"pcieport {above}: AER: Uncorrected (Fatal) error received: {above}",
        f"pcieport {above}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, "
        "(Receiver ID)",
        f"pcieport {above}:   device [1000:c030] error status/mask=00000020/00000000",
        f"pcieport {above}:    [ 5] SDES                   (First)",
    )


@must_pass("pcie-corrected-once")
def pcie_corrected_once(machine: Machine, target: Target) -> Machine:
    """A single corrected error in the kernel log: the link mended it."""
    above = function_of(machine, gpu_of(machine, target).bus_id).parent
    return log(
        machine,
        f"pcieport {above}: AER: Corrected error received: {above}",
        f"pcieport {above}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, "
        "(Transmitter ID)",
        f"pcieport {above}:    [12] Timeout               ",
        priority=4,
    )
