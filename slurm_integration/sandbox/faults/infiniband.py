"""InfiniBand and RoCE adapters and their ports."""

from msgspec.structs import replace

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import (
    count_port,
    edit_hca,
    edit_pci,
    edit_port,
    function_of,
    log,
    rebooted,
    root_port_of,
    without_pci,
)
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass, unchanged
from slurm_integration.sandbox.machine.description import Hca, HcaPort, Machine

_IB = ("ib",)
_POLLING = ("1: DOWN", "2: Polling")
_SLOW = {"200": "100 Gb/sec (4X EDR)", "400": "200 Gb/sec (4X HDR)"}


@fault("ib-port-down", "ib-ports", action=Action.DRAIN, needs=_IB, also=("ib-flap",))
def ib_port_down(machine: Machine, target: Target) -> Machine:
    """A port polls for a partner: cable, transceiver or switch port."""
    down = edit_port(machine, target, state=_POLLING[0], phys_state=_POLLING[1])
    return count_port(down, target, link_downed=1)


@fault("ib-rate-low", "ib-ports", action=Action.DRAIN, needs=_IB)
def ib_rate_low(machine: Machine, target: Target) -> Machine:
    """A port has come up at half its rate."""
    rate = machine.hcas[target.hca].ports[0].rate.partition(" ")[0]
    return edit_port(machine, target, rate=_SLOW[rate])


@fault("ib-no-sm", "ib-ports", needs=_IB, told="subnet manager")
def ib_no_sm(machine: Machine, target: Target) -> Machine:
    """All ports have a link and wait for a subnet manager: the fabric, not the node."""
    for number in range(len(machine.hcas)):
        machine = edit_port(machine, target._replace(hca=number), state="2: INIT")
    return machine


@fault("ib-wrong-link-layer", "ib-ports", action=Action.DRAIN, needs=_IB)
def ib_wrong_link_layer(machine: Machine, target: Target) -> Machine:
    """A port runs as Ethernet where InfiniBand is expected."""
    return edit_port(machine, target, link_layer="Ethernet")


@fault("ib-flap", "ib-flap", action=Action.DRAIN, needs=_IB)
def ib_flap(machine: Machine, target: Target) -> Machine:
    """A link went down and came back six times since the last look."""
    return count_port(machine, target, link_downed=6)


@fault("ib-flap-once", "ib-flap", Severity.WARN, needs=_IB)
def ib_flap_once(machine: Machine, target: Target) -> Machine:
    """A link went down and came back once since the last look."""
    return count_port(machine, target, link_downed=1)


@fault("ib-symbol-errors", "ib-errors", Severity.WARN, needs=_IB)
def ib_symbol_errors(machine: Machine, target: Target) -> Machine:
    """A port counts symbol errors at a rate that a good cable never has."""
    return count_port(machine, target, symbol_error=60_000)


@fault("ib-retries", "ib-hw-errors", Severity.WARN, needs=_IB)
def ib_retries(machine: Machine, target: Target) -> Machine:
    """Peers do not acknowledge what this card sends, thousands of times a minute."""
    return count_port(machine, target, local_ack_timeout_err=50_000)


@fault("ib-firmware-odd", "ib-firmware", Severity.WARN, needs=_IB)
def ib_firmware_odd(machine: Machine, target: Target) -> Machine:
    """One card runs another firmware than its twins."""
    major = machine.hcas[target.hca].firmware.partition(".")[0]
    return edit_hca(machine, target, firmware=f"{major}.35.1012")


def _used_up(machine: Machine, target: Target) -> Machine:
    # link_downed is 8 bits wide (InfiniBand, PortCounters) and stops at its maximum.
    return count_port(machine, target, link_downed=255)


@fault("ib-counter-saturated", "ib-flap", Severity.WARN, needs=_IB, past=_used_up)
def ib_counter_saturated(machine: Machine, target: Target) -> Machine:
    """A port's link_downed stands at its maximum, so that a new loss would go unseen."""
    return unchanged(machine, target)


def _counted(machine: Machine, target: Target) -> Machine:
    return count_port(machine, target, link_downed=41, symbol_error=9_100, port_rcv_errors=77)


@must_pass("ib-counter-reset", needs=_IB, past=_counted)
def ib_counter_reset(machine: Machine, target: Target) -> Machine:
    """Somebody reset a port's counters: smaller than before is no growth."""
    return count_port(machine, target, link_downed=0, symbol_error=0, port_rcv_errors=0)


@must_pass("ib-old-errors", needs=_IB, past=_counted)
def ib_old_errors(machine: Machine, target: Target) -> Machine:
    """Port errors that are all older than the last look."""
    return unchanged(machine, target)


@must_pass("ib-after-reboot", needs=_IB, past=_counted)
def ib_after_reboot(machine: Machine, target: Target) -> Machine:
    """The node rebooted: every link went down once, and the counters began anew."""
    machine = rebooted(machine)
    for number in range(len(machine.hcas)):
        machine = edit_port(machine, target._replace(hca=number), counters={"link_downed": 1})
    return machine


@must_pass("ib-unused-port", needs=_IB)
def ib_unused_port(machine: Machine, target: Target) -> Machine:
    """A further card whose port nobody uses polls for ever."""
    twin = machine.hcas[target.hca]
    slot = function_of(machine, twin.bus_id)
    root = replace(root_port_of(machine, twin.bus_id), bus_id="0000:28:01.0", numa_node=0)
    card = replace(slot, bus_id="0000:29:00.0", parent=root.bus_id, numa_node=0)
    unused = Hca(
        name="mlx5_20", bus_id=card.bus_id, hca_type=twin.hca_type, board_id=twin.board_id,
        firmware=twin.firmware, node_guid="a088:c203:00ff:ee10",
        ports=(HcaPort(state=_POLLING[0], phys_state=_POLLING[1], rate="10 Gb/sec (4X SDR)"),),
    )  # fmt: skip
    return replace(machine, pci=(*machine.pci, root, card), hcas=(*machine.hcas, unused))


@fault("nic-missing", "ib-devices", action=Action.REBOOT, needs=_IB, also=("ib-ports",))
def nic_missing(machine: Machine, target: Target) -> Machine:
    """A card is not there any more, on the PCI bus or as a device."""
    gone = machine.hcas[target.hca]
    kept = tuple(h for h in machine.hcas if h.name != gone.name)
    return replace(without_pci(machine, gone.bus_id), hcas=kept)


@fault("nic-config-ff", "pcie-responsive", action=Action.REBOOT, needs=_IB)
def nic_config_ff(machine: Machine, target: Target) -> Machine:
    """A card's PCI configuration space reads all ones: it has left the bus."""
    return edit_pci(machine, machine.hcas[target.hca].bus_id, dead=True)


@fault("nic-all-missing", "ib-devices", action=Action.REBOOT, needs=_IB,
       also=("ib-ports",))  # fmt: skip
def nic_all_missing(machine: Machine, target: Target) -> Machine:
    """No InfiniBand device exists: the driver did not load, and nothing may call that healthy."""
    left = tuple(name for name in machine.modules if not name.startswith("mlx5"))
    bare = tuple(replace(f, driver=None) if f.role == "nic" else f for f in machine.pci)
    return replace(machine, hcas=(), modules=left, pci=bare)


@fault("nic-insufficient-power", "nic-power", Severity.WARN, needs=_IB)
def nic_insufficient_power(machine: Machine, target: Target) -> Machine:
    """A card reports that its slot gives too little power."""
    bus_id = machine.hcas[target.hca].bus_id
    return log(
        machine,
        f"mlx5_core {bus_id}: mlx5_pcie_event:301:(pid 5411): Detected insufficient power on the "
        "PCIe slot (27W).",
        priority=4,
    )


@fault("nic-fatal", "nic-health", action=Action.REBOOT, needs=_IB)
def nic_fatal(machine: Machine, target: Target) -> Machine:
    """A card's firmware died: "Fatal error 1 detected"."""
    bus_id = machine.hcas[target.hca].bus_id
    return log(
        machine,
        f"mlx5_core {bus_id}: poll_health:835:(pid 0): Fatal error 1 detected",
        f"mlx5_core {bus_id}: print_health_info:431:(pid 0): assert_var[0] 0x00000001",
        f"mlx5_core {bus_id}: mlx5_health_try_recover:329:(pid 411): handling bad device here",
    )


@must_pass("nic-mkey-limit", needs=_IB)
def nic_mkey_limit(machine: Machine, target: Target) -> Machine:
    """A job registered more memory than a card has keys for: the job's limit, not a fault."""
    bus_id = machine.hcas[target.hca].bus_id
    return log(
        machine,
        f"mlx5_core {bus_id}: mlx5_cmd_out_err:810:(pid 41203): CREATE_MKEY(0x200) op_mod(0x0) "
        "failed, status limits exceeded(0x8), syndrome (0x5aeaa2), err(-12)",
    )
