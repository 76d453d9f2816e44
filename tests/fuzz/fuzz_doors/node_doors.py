"""What the kernel, sysfs and the machine's own programs tell a node's probes."""

from pathlib import Path

import msgspec
from door import door, encodable, finite, text_of

from epilog.kernel_log import read_kernel_log
from healthcheck.allreduce.nccl_log import complaints, parse_nccl_log
from healthcheck.probes import (
    _ipmi,
    _services,
    infiniband,
    kernel_log,
    pci,
    power,
    processes,
    storage,
    system,
)
from healthcheck.probes._nvml_calls import number, text

CORPUS = Path(__file__).parents[2] / "epilog/corpus"
KMSG = b"""\
6,339,5140900,-;NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
 SUBSYSTEM=pci
4,340,5140999,-;NVRM: Xid (PCI:0000:1b:00): 94, pid=4711, name=python, Contained: SM (0x1). RST: No, D-RST: No
2,341,5141000,-;mce: [Hardware Error]: Machine check events logged
2,342,5141001,-;EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1 offset:0x0)
3,343,5141002,-;mlx5_core 0000:18:00.0: mlx5_health_report:420:(pid 0): health recovery failed
3,344,5141003,-;pcieport 0000:15:01.0: AER: Uncorrected (Fatal) error received: 0000:16:00.0
3,345,5141004,-;nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error
12,346,5141005,-;NVRM: Xid (PCI:0000:b3:00): 79, written by a user
"""  # noqa: E501
STAMPED = b"""\
[Mon Dec  1 10:00:00 2026] NVRM: Xid (PCI:0000:b3:00): 79, pid=1, GPU has fallen off the bus.
Feb 29 10:00:00 node01 kernel: NVRM: Xid (PCI:0000:b3:00): 48, pid=1
2026-12-01T10:00:00.123456+0000 node01 kernel: [12.345] NVRM: Xid (PCI:0000:b3:00): 63, pid=1
"""


def _corpus(*names: str) -> list[bytes]:
    return [path.read_bytes()[:6000] for name in names for path in sorted(CORPUS.glob(name))]


@door("kernel-log", lambda: [KMSG, KMSG.splitlines()[0]])
def _kernel_log(data: bytes) -> None:
    records = data.split(b"\n")
    for since in (0, 341, 1 << 62):
        log = kernel_log.parse_kernel_log(records, since)
        encodable(log)
        finite(msgspec.to_builtins(log))


@door("kernel-log-file", lambda: [KMSG, STAMPED, *_corpus("08[34]*", "03[3468]*")])
def _kernel_log_file(data: bytes) -> None:
    for year in (0, 2026, 1):
        encodable(read_kernel_log(data.split(b"\n"), "kern.log", "node01", year))


SYSFS = [
    b"4: ACTIVE\n",
    b"400 Gb/sec (4X NDR)\n",
    b"5: LinkUp\n",
    b"InfiniBand\n",
    b"32.0 GT/s PCIe\n",
    b"16\n",
    b"0x010302\n",
    b"RxErr 0\nBadTLP 0\nTOTAL_ERR_COR 0\n",
    b"DRIVER=nvidia\n"
    b"PCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SUBSYS_ID=10DE:16C1\nPCI_SLOT_NAME=0000:1b:00.0\n",
    b"../../../devices/pci0000:15/0000:15:01.0/0000:16:00.0/infiniband/mlx5_0",
    b"MemTotal:       2113481732 kB\nMemAvailable: 2000000000 kB\nHugePages_Total:  0\n",
    b"nvidia 56823808 1234 nvidia_uvm,nvidia_modeset, Live 0xffffffffc0a00000 (POE)\n",
    b"overlay / overlay rw,relatime 0 0\nnfs:/home /home nfs4 rw,vers=4.2 0 0\n"
    b"/dev/a /b\\040c ext4 ro 0 0\n",
    b"4711 (a) b (c) D 1 4711 4711 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n",
    b"PS1 Status       | C8h | ok  | 10.1 | Presence detected\n"
    b"Pwr Consumption  | 77h | ok  | 7.1 | 812 Watts\n",
    b"populated 1\nfrozen 0\n",
    b"ActiveState=active\n",
    b"Type=forking\nKillMode=none\n",
    b"in0_crit_alarm\n",
    b"power_meter-acpi-0\n",
]


@door("sysfs", lambda: SYSFS)
def _sysfs(data: bytes) -> None:
    told = text_of(data).strip()
    for parse in (
        infiniband.parse_state,
        infiniband.parse_rate,
        infiniband.parse_word,
        infiniband.parse_layer,
        infiniband.address_in,
        pci.parse_speed,
        pci.parse_width,
        pci.parse_count,
        pci.parse_uevent,
        pci.parse_aer,
        pci.parents_in,
        pci.is_bus_id,
        system.parse_meminfo,
        system.parse_modules,
        system.parse_count,
        processes.parse_stat,
        storage.parse_mounts,
        _ipmi.parse_power_sdr,
        _services.parse_populated,
        _services.parse_is_active,
        _services.parse_lingers,
        _services.unit_name,
        power.parse_power_chip,
        power.parse_alarm,
        number,
        text,
    ):
        try:
            value = parse(told)
        except ValueError:
            continue  # the probe's child tells it: unmeasured, never a finding
        finite(value)
        if not isinstance(value, tuple) or not any(isinstance(x, set) for x in value):
            encodable(value)
    text(data)


@door("nccl-log", lambda: _corpus("01*", "024*", "082*"))
def _nccl_log(data: bytes) -> None:
    encodable(parse_nccl_log(text_of(data)))
    encodable(complaints(text_of(data)))
