"""Xids and SXids: what the NVIDIA driver writes into the kernel log."""

from msgspec.structs import replace

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import (
    edit_gpu,
    edit_pci,
    gpu_of,
    log,
    nvml_of,
    rebooted,
    xid_line,
)
from slurm_integration.sandbox.faults.gpu_bus import fell_off
from slurm_integration.sandbox.faults.registry import (
    Change,
    Target,
    fault,
    must_pass,
    unchanged,
)
from slurm_integration.sandbox.machine.description import Machine

_PROCESS = (41203, "python3")


def _logged(code: int, text: str, *, job: bool = False, ago_s: float = 0.0) -> Change:
    """One Xid line; `job`: the driver names the process that was running."""

    def change(machine: Machine, target: Target) -> Machine:
        process = _PROCESS if job else None
        return log(machine, xid_line(machine, target, code, text, process), ago_s=ago_s)

    return change


@fault("xid-79", "xid", action=Action.REBOOT, told="79",
       also=("gpu-count", "gpu-visibility"))  # fmt: skip
def xid_79(machine: Machine, target: Target) -> Machine:
    """The GPU falls off the bus: Xid 79, NVML loses it, its configuration space reads all ones."""
    gpu = gpu_of(machine, target)
    said = log(
        machine,
        f"NVRM: GPU at PCI:{gpu.bus_id.rpartition('.')[0]}: {gpu.uuid}",
        f"NVRM: GPU Board Serial Number: {gpu.serial}",
        xid_line(machine, target, 79, "GPU has fallen off the bus."),
        f"NVRM: GPU {gpu.bus_id}: GPU has fallen off the bus.",
    )
    return fell_off(said, target)


@fault("xid-48", "xid", action=Action.RESET_GPU, told="48")
def xid_48(machine: Machine, target: Target) -> Machine:
    """Double-bit ECC error (Xid 48)."""
    text = "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer"
    return _logged(48, f"{text} at partition 6, subpartition 1.", job=True)(machine, target)


_REMAPPED = _logged(63, "Row Remapper: New row (0x00000000029eb1c4) marked for remapping, reset "
                    "gpu to activate.")  # fmt: skip


@fault("xid-63", "xid", Severity.WARN, Action.RESET_GPU, told="63", also=("gpu-row-remap",))
def xid_63(machine: Machine, target: Target) -> Machine:
    """A row remap was recorded (Xid 63) and waits: reset at the next idle moment, no drain."""
    return edit_gpu(_REMAPPED(machine, target), target, remapped_rows_pending=True,
                    remapped_rows_corrected=1)  # fmt: skip


@must_pass("xid-63-settled")
def xid_63_settled(machine: Machine, target: Target) -> Machine:
    """A row remap was recorded (Xid 63), and the GPU has been reset since: it is in force."""
    return edit_gpu(_REMAPPED(machine, target), target, remapped_rows_corrected=1)


@fault("xid-64", "xid", action=Action.REPLACE, told="64")
def xid_64(machine: Machine, target: Target) -> Machine:
    """A row remap failed (Xid 64)."""
    return _logged(64, "Row Remapper Error: (0x00000000029eb1c4) - All reserved rows for bank "
                   "are remapped")(machine, target)  # fmt: skip


@fault("xid-74", "xid", action=Action.RESET_GPU, told="74", needs=("nvlink",))
def xid_74(machine: Machine, target: Target) -> Machine:
    """A fatal NVLink error (Xid 74)."""
    return _logged(74, "NVLink: fatal error detected on link 8"
                   "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)")(machine, target)  # fmt: skip


@fault("xid-94", "xid", Severity.WARN, Action.RESTART_APP, told="94")
def xid_94(machine: Machine, target: Target) -> Machine:
    """A contained memory error (Xid 94): the application restarts, the node stays."""
    return _logged(94, "Contained: SM (0x1). RST: No, D-RST: No", job=True)(machine, target)


@fault("xid-94-repeat", "xid", action=Action.RESET_GPU, told="94")
def xid_94_repeat(machine: Machine, target: Target) -> Machine:
    """Contained memory errors (Xid 94) again and again on one GPU within a day."""
    text = "Contained: SM (0x1). RST: No, D-RST: No"
    for minutes in (12, 5, 0):
        machine = _logged(94, text, job=True, ago_s=minutes * 60.0)(machine, target)
    return machine


@fault("xid-95", "xid", action=Action.RESET_GPU, told="95")
def xid_95(machine: Machine, target: Target) -> Machine:
    """An uncontained memory error (Xid 95)."""
    return _logged(95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No", job=True)(
        machine, target
    )


@fault("xid-109", "xid", action=Action.RESET_GPU, told="109")
def xid_109(machine: Machine, target: Target) -> Machine:
    """A context switch timed out (Xid 109)."""
    return _logged(109, "Ch 0000000a, errorString CTX SWITCH TIMEOUT, Info 0x5c006", job=True)(
        machine, target
    )


_GSP = "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76"


@fault("xid-119", "xid", action=Action.RESET_GPU, told="119")
def xid_119(machine: Machine, target: Target) -> Machine:
    """The GPU's system processor answers no more (Xid 119)."""
    text = f"{_GSP} (GSP_RM_CONTROL) (0x20802a02 0x8)."
    return _logged(119, text, job=True)(machine, target)


@fault("xid-140", "xid", action=Action.RESET_GPU, told="140")
def xid_140(machine: Machine, target: Target) -> Machine:
    """An ECC error that was not recovered (Xid 140)."""
    return _logged(140, "ECC unrecovered error (0x1, 0x0)")(machine, target)


@fault("xid-145-fatal", "xid", action=Action.RESET_GPU, told="145", needs=("nvlink5",))
def xid_145_fatal(machine: Machine, target: Target) -> Machine:
    """A fatal NVLink 5 error (Xid 145, severity word "Fatal")."""
    return _logged(145, "RLW_CTRL Fatal XC0 i0 Link 04 (0x00000004 0x80000000 0x00000000 "
                   "0x00000000 0x00000000 0x00000000)")(machine, target)  # fmt: skip


@fault("xid-149-nonfatal", "xid", Severity.WARN, told="149", needs=("nvlink5",))
def xid_149_nonfatal(machine: Machine, target: Target) -> Machine:
    """A non-fatal NVLink 5 error (Xid 149, severity word "Nonfatal"): watched, no drain."""
    return _logged(149, "NETIR_LINK_EVT Nonfatal XC0 i0 Link 09 (0x00000009 0x40000000 "
                   "0x00000000 0x00000000 0x00000000 0x00000000)")(machine, target)  # fmt: skip


@fault("xid-154-reset", "xid", action=Action.RESET_GPU, told="154")
def xid_154_reset(machine: Machine, target: Target) -> Machine:
    """The driver asks for a GPU reset (Xid 154)."""
    return _logged(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")(
        machine, target
    )


@fault("xid-154-reboot", "xid", action=Action.REBOOT, told="154")
def xid_154_reboot(machine: Machine, target: Target) -> Machine:
    """The driver asks for a reboot of the node (Xid 154)."""
    return _logged(
        154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    )(machine, target)


@fault("xid-storm", "xid", action=Action.RESET_GPU, told="119")
def xid_storm(machine: Machine, target: Target) -> Machine:
    """Hundreds of lines of one Xid: one finding, not hundreds."""
    for number in range(400):
        text = f"{_GSP} (GSP_RM_CONTROL) (0x{number:08x} 0x8)."
        change = _logged(119, text, job=True, ago_s=(400 - number) / 9)
        machine = change(machine, target)
    return machine


@must_pass("xid-13-app")
def xid_13_app(machine: Machine, target: Target) -> Machine:
    """A program's own fault (Xid 13 with its process): never the node's."""
    return _logged(13, "Graphics SM Warp Exception on (GPC 1, TPC 4, SM 0): Out Of Range Address",
                   job=True)(machine, target)  # fmt: skip


@must_pass("xid-31-app")
def xid_31_app(machine: Machine, target: Target) -> Machine:
    """A program reads memory that is not its own (Xid 31 and its aftermath 43): not the node's."""
    text = (
        "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ "
        "0x7f2b_c4000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    )
    machine = _logged(31, text, job=True)(machine, target)
    return _logged(43, "Ch 00000008", job=True)(machine, target)


@must_pass("xid-45-sympathetic")
def xid_45_sympathetic(machine: Machine, target: Target) -> Machine:
    """Channels torn down when a program is killed (Xid 45): an aftermath, no fault."""
    return _logged(45, "Ch 00000010", job=True)(machine, target)


@must_pass("old-xid-before-boot", past=xid_79)
def old_xid_before_boot(machine: Machine, target: Target) -> Machine:
    """An Xid 79 of the boot before: the reboot mended it, and it judges no more."""
    return rebooted(mended(machine, target))


def mended(machine: Machine, target: Target) -> Machine:
    """A GPU that answers again after it fell off the bus."""
    answering = edit_pci(machine, gpu_of(machine, target).bus_id, dead=False)
    return replace(answering, nvml=replace(nvml_of(answering), faults=()))


@must_pass("old-xid-logged", past=_logged(13, "Graphics Exception: ESR 0x514648=0x1", ago_s=600.0))
def old_xid_logged(machine: Machine, target: Target) -> Machine:
    """An application's Xid that the last look has seen already."""
    return unchanged(machine, target)


@must_pass("fake-xid-from-user")
def fake_xid_from_user(machine: Machine, target: Target) -> Machine:
    """A user writes an Xid line into the kernel log: the record carries the user's facility."""
    line = xid_line(machine, target, 79, "GPU has fallen off the bus.")
    return log(machine, line, priority=12)


@fault("sxid-fatal", "sxid", action=Action.REBOOT, told="20034", needs=("nvswitch",))
def sxid_fatal(machine: Machine, target: Target) -> Machine:
    """An NVSwitch reports a fatal link error (SXid 20034)."""
    return log(machine, f"nvidia-nvswitch1: SXid (PCI:{_switch(machine)}): 20034, Fatal, Link 30 "
               "LTSSM Fault Up")  # fmt: skip


@fault("sxid-nonfatal", "sxid", Severity.WARN, told="11012", needs=("nvswitch",))
def sxid_nonfatal(machine: Machine, target: Target) -> Machine:
    """An NVSwitch reports a non-fatal single-bit error (SXid 11012)."""
    return log(machine, f"nvidia-nvswitch1: SXid (PCI:{_switch(machine)}): 11012, Non-fatal, "
               "Link 44 ingress ECC limit reached")  # fmt: skip


def _switch(machine: Machine) -> str:
    found = [f.bus_id for f in machine.pci if f.role == "nvswitch"]
    return found[len(found) // 2] if found else "0000:00:00.0"
