"""Ready-made healthy machines: an HGX H100 baseboard."""

import uuid

from slurm_integration.sandbox.nvml.model import SimulatedGpu, SimulatedNvLink, SimulatedNvml

# A common layout of an 8-GPU HGX H100 server: four GPUs on each socket.
_BUS_IDS = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
# Four NVSwitches; the 18 links of a GPU go 5, 4, 4 and 5 to them.
_SWITCHES = ("0000:07:00.0", "0000:08:00.0", "0000:09:00.0", "0000:0a:00.0")
_SWITCH_OF_LINK = (0,) * 5 + (1,) * 4 + (2,) * 4 + (3,) * 5


def hgx_h100(seed: str = "flightcheck") -> SimulatedNvml:
    """Eight healthy idle H100s, 18 active NVLinks each; serials and uuids follow from `seed`."""
    return SimulatedNvml(gpus=tuple(h100_sxm(index, seed) for index in range(8)))


def h100_sxm(index: int, seed: str = "flightcheck") -> SimulatedGpu:
    """The GPU at place `index` (0-7) of an HGX H100 baseboard."""
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{seed}/gpu/{index}")
    links = tuple(SimulatedNvLink(remote_bus_id=_SWITCHES[switch]) for switch in _SWITCH_OF_LINK)
    return SimulatedGpu(
        bus_id=f"0000:{_BUS_IDS[index]}:00.0",
        uuid=f"GPU-{identity}",
        serial=f"16{identity.int % 10**11:011d}",
        minor_number=index,
        board_id=int(_BUS_IDS[index], 16) << 8,
        module_id=index + 1,
        numa_node=0 if index < 4 else 1,
        nvlinks=links,
    )
