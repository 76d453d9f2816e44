"""A fault in a real node's snapshot: right part, right figure, and nothing else."""

import msgspec
import pytest

from healthcheck.model import (
    Gpu,
    Hca,
    KernelEvent,
    KernelLog,
    NvLink,
    PciDevice,
    Port,
    PowerSupply,
    Problem,
    Snapshot,
)
from slurm_integration.drill.transplant import NotHereError, same_places, transplant

replace = msgspec.structs.replace


def pci(bus_id: str, kind: str, parent: str | None = None) -> PciDevice:
    return PciDevice(bus_id, kind, "10de", "2330", parent=parent)


def node(domain: str, hcas: tuple[str, ...] = ("mlx5_0", "mlx5_1"), **changes: object) -> Snapshot:
    gpus = tuple(
        Gpu(index, f"{domain}:{bus}:00.0", uuid=f"GPU-{domain}-{bus}", temperature_c=30,
            ecc_volatile_uncorrected=0, nvlinks=(NvLink(0, True), NvLink(1, True)))
        for index, bus in enumerate(("1b", "5d"))
    )  # fmt: skip
    devices = [pci(gpu.bus_id, "gpu", f"{domain}:{n}0:01.0") for n, gpu in enumerate(gpus)]
    devices += [pci(f"{domain}:{n}0:01.0", "bridge") for n in range(2)]
    known = {
        "gpus": gpus,
        "pci": tuple(devices),
        "hcas": tuple(Hca(name, (Port(1, counters={"link_downed": 0}),)) for name in hcas),
        "kernel_log": KernelLog(10, (KernelEvent("xid", 3, 5.0, "old"),)),
        "uptime_s": 1000.0,
        "modules": ("nvidia", "ib_core"),
    }
    return Snapshot(domain, 1.0, **{**known, **changes})  # type: ignore[arg-type]


HEALTHY, REAL = node("0000"), node("0007", ("ibp1", "ibp2"), uptime_s=90_000.0)


def gpu_changed(at: int, **changes: object) -> Snapshot:
    gpus = list(HEALTHY.gpus or ())
    gpus[at] = replace(gpus[at], **changes)
    return replace(HEALTHY, gpus=tuple(gpus))


def test_parts_in_the_same_place_stand_for_each_other():
    names = same_places(HEALTHY, REAL)
    assert names["0000:1b:00.0"] == "0007:1b:00.0"
    assert names["0000:10:01.0"] == "0007:10:01.0"
    assert (names["mlx5_0"], names["mlx5_1"]) == ("ibp1", "ibp2")


def test_without_a_fault_nothing_changes():
    assert transplant(HEALTHY, HEALTHY, REAL) == REAL


def test_a_figure_becomes_what_it_became_and_a_counter_grows():
    real = replace(REAL, gpus=tuple(replace(g, ecc_volatile_uncorrected=5) for g in REAL.gpus))
    done = transplant(HEALTHY, gpu_changed(1, temperature_c=91, ecc_volatile_uncorrected=2), real)
    assert [gpu.temperature_c for gpu in done.gpus] == [30, 91]
    assert [gpu.ecc_volatile_uncorrected for gpu in done.gpus] == [5, 7]
    assert done.gpus[1].uuid == "GPU-0007-5d"


def test_a_gpu_that_is_gone_is_gone_in_the_same_place():
    done = transplant(HEALTHY, replace(HEALTHY, gpus=HEALTHY.gpus[:1]), REAL)
    assert [gpu.bus_id for gpu in done.gpus] == ["0007:1b:00.0"]


def test_one_link_of_one_gpu():
    links = (NvLink(0, True), NvLink(1, False))
    done = transplant(HEALTHY, gpu_changed(0, nvlinks=links), REAL)
    assert [[link.active for link in gpu.nvlinks] for gpu in done.gpus] == [
        [True, False], [True, True]
    ]  # fmt: skip


def test_counters_of_a_port_under_its_own_name():
    real = replace(REAL, hcas=tuple(
        replace(hca, ports=(Port(1, counters={"link_downed": 7}),)) for hca in REAL.hcas
    ))  # fmt: skip
    broken = replace(HEALTHY, hcas=(
        HEALTHY.hcas[0], Hca("mlx5_1", (Port(1, counters={"link_downed": 6}),)),
    ))  # fmt: skip
    done = transplant(HEALTHY, broken, real)
    assert [hca.ports[0].counters["link_downed"] for hca in done.hcas] == [7, 13]


def test_a_reading_that_hangs_takes_the_facts_and_names_the_real_part():
    hung = Problem("hung", "no answer", "nvmlDeviceGetTemperature", "0000:5d:00.0")
    done = transplant(HEALTHY, replace(HEALTHY, gpus=None, problems={"gpus": hung}), REAL)
    assert done.gpus is None
    assert done.problems["gpus"].subject == "0007:5d:00.0"


def test_lines_of_the_kernel_log_come_behind_the_real_ones_as_long_ago():
    line = KernelEvent("xid", 10, 990.0, "NVRM: Xid (PCI:0000:5d:00): 79", 79, "0000:5d:00.0")
    log = KernelLog(11, (*HEALTHY.kernel_log.events, line))
    done = transplant(HEALTHY, replace(HEALTHY, kernel_log=log), REAL)
    old, new = done.kernel_log.events
    assert old == REAL.kernel_log.events[0]
    assert (new.subject, new.uptime_s, new.sequence) == ("0007:5d:00.0", 89_990.0, 10)
    assert "PCI:0007:5d:00" in new.message
    assert done.kernel_log.next_sequence == 11


def test_a_missing_module_leaves_the_sites_own():
    real = replace(REAL, modules=("nvidia", "lustre", "ib_core"))
    done = transplant(HEALTHY, replace(HEALTHY, modules=("nvidia",)), real)
    assert done.modules == ("nvidia", "lustre")


@pytest.mark.parametrize(
    ("real", "told"),
    [
        (replace(REAL, gpus=None), "gpus was not measured"),
        (replace(REAL, gpus=REAL.gpus[:1]), "no gpus like"),
        (replace(REAL, kernel_log=None), None),
    ],
)
def test_what_the_node_lacks_is_said(real, told):
    broken = gpu_changed(1, temperature_c=91)
    if told is None:
        assert transplant(HEALTHY, broken, real).gpus[1].temperature_c == 91
        return
    with pytest.raises(NotHereError, match=told):
        transplant(HEALTHY, broken, real)


def test_a_supply_is_hit_in_its_place():
    supply = PowerSupply("PS1", "ok", "ipmi")
    healthy = replace(HEALTHY, power_supplies=(supply,))
    broken = replace(HEALTHY, power_supplies=(replace(supply, state="failed"),))
    real = replace(REAL, power_supplies=(PowerSupply("PSU A", "ok", "ipmi"),))
    (done,) = transplant(healthy, broken, real).power_supplies
    assert (done.name, done.state) == ("PSU A", "failed")
