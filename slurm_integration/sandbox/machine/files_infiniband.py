"""/sys/class/infiniband: adapters, ports and their counters."""

from collections.abc import Iterator

from slurm_integration.sandbox.machine.description import Hca, HcaPort, Machine
from slurm_integration.sandbox.machine.files_pci import folders_of
from slurm_integration.sandbox.machine.tree import Link

COUNTERS = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery",
    "local_link_integrity_errors", "multicast_rcv_packets", "port_rcv_constraint_errors",
    "port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data",
    "port_xmit_discards", "port_xmit_packets", "port_xmit_wait", "symbol_error",
)  # fmt: skip
TRAFFIC = {
    "port_rcv_data": 318_466_211_542, "port_rcv_packets": 611_204_417,
    "port_xmit_data": 318_466_190_004, "port_xmit_packets": 611_204_102, "port_xmit_wait": 40_811,
    "multicast_rcv_packets": 1_204,
}  # fmt: skip
HW_COUNTERS = (
    "duplicate_request", "implied_nak_seq_err", "lifespan", "local_ack_timeout_err",
    "np_cnp_sent", "np_ecn_marked_roce_packets", "out_of_buffer", "out_of_sequence",
    "packet_seq_err", "req_cqe_error", "req_remote_access_errors", "resp_cqe_error",
    "rnr_nak_retry_err", "rp_cnp_handled", "rx_atomic_requests", "rx_read_requests",
    "rx_write_requests",
)  # fmt: skip
_USED = {"lifespan": 10, "rx_write_requests": 48_771_204, "rx_read_requests": 912_004}


def files(machine: Machine) -> Iterator[tuple[str, bytes | Link]]:
    """Every file of every adapter, below its PCI function, and the class links."""
    folders = folders_of(machine)
    if machine.hcas:
        yield "sys/class/infiniband_verbs/abi_version", b"6\n"
    for hca in machine.hcas:
        if hca.bus_id not in folders:
            continue
        device = folders[hca.bus_id]
        folder = f"{device}/infiniband/{hca.name}"
        yield f"sys/class/infiniband/{hca.name}", Link(f"../../{folder}")
        yield f"sys/{folder}/device", Link("../..")
        for name, text in _identity(hca).items():
            yield f"sys/{folder}/{name}", f"{text}\n".encode()
        for number, port in enumerate(hca.ports, start=1):
            for name, text in _port(port).items():
                yield f"sys/{folder}/ports/{number}/{name}", f"{text}\n".encode()


def _identity(hca: Hca) -> dict[str, str]:
    return {
        "fw_ver": hca.firmware,
        "board_id": hca.board_id,
        "hca_type": hca.hca_type,
        "node_guid": hca.node_guid,
        "sys_image_guid": hca.node_guid,
        "node_desc": hca.name,
        "node_type": "1: CA",
    }


def _port(port: HcaPort) -> dict[str, str]:
    found = {
        "state": port.state,
        "phys_state": port.phys_state,
        "rate": port.rate,
        "link_layer": port.link_layer,
        "lid": f"0x{port.lid:x}",
        "sm_lid": "0x1" if port.state == "4: ACTIVE" else "0x0",
    }
    for name in COUNTERS:
        found[f"counters/{name}"] = str(port.counters.get(name, TRAFFIC.get(name, 0)))
    for name in HW_COUNTERS:
        found[f"hw_counters/{name}"] = str(port.hw_counters.get(name, _USED.get(name, 0)))
    return found
