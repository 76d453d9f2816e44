"""What a fleet is compared by."""

from healthcheck.model import Baseline, Counter, Driver, Gpu, Hca, NvLink, NvmlError, Port, Snapshot
from healthcheck.report.facts import facts_of

HOUR_S = 3600.0


def node(**more) -> Snapshot:
    return Snapshot("node01", 2 * HOUR_S, boot_id="a", **more)


def grown(**counters: int) -> Baseline:
    kept = {name.replace("__", "|"): Counter(value, HOUR_S) for name, value in counters.items()}
    return Baseline(boot_id="a", counters=kept)


def test_nothing_measured_is_nothing_to_compare():
    facts = facts_of(node())
    assert (facts.versions, facts.figures) == ({}, {})


def test_of_several_gpus_the_hottest_the_mean_power_and_the_slowest_links():
    links = [tuple(NvLink(i, True, 26_562) for i in range(n)) for n in (18, 17)]
    gpus = (
        Gpu(0, "a", temperature_c=40, power_w=100.0, nvlinks=links[0]),
        Gpu(1, "b", temperature_c=60, power_w=300.0, nvlinks=links[1]),
        Gpu(2, "c", handle_error=NvmlError("x", 15, "LOST")),
    )
    figures = facts_of(node(gpus=gpus)).figures
    assert figures["gpu_temperature_c"] == 60
    assert figures["gpu_power_w"] == 200
    assert figures["nvlink_gb_s"] == 451.554


def test_versions_of_one_part_are_told_once_each():
    gpus = tuple(Gpu(i, str(i), name="H100", vbios="B" if i == 7 else "A") for i in range(8))
    facts = facts_of(node(gpus=gpus, driver=Driver(version="550.54")))
    assert facts.versions == {"GPU driver": ("550.54",), "VBIOS of H100": ("A", "B")}


def test_rates_are_growth_since_the_baseline_and_not_totals():
    gpus = (Gpu(0, "a", pcie_replays=1010), Gpu(1, "b", pcie_replays=5))
    figures = facts_of(node(gpus=gpus, baseline=grown(a__pcie_replays=1000))).figures
    assert figures["pcie_replays_per_hour"] == 10
    assert "pcie_replays_per_hour" not in facts_of(node(gpus=gpus)).figures


def test_network_counts_active_ports_alone():
    ports = (
        Port(1, state="ACTIVE", rate_gb_s=400.0, counters={"symbol_error": 30}),
        Port(2, state="DOWN", rate_gb_s=400.0),
    )
    hca = Hca("mlx5_0", ports, board_id="MT_1", firmware="28.39")
    baseline = Baseline(boot_id="a", counters={"mlx5_0/1|symbol_error": Counter(10, HOUR_S)})
    facts = facts_of(node(hcas=(hca,), baseline=baseline))
    assert facts.figures == {"network_gbit_s": 400, "network_errors_per_hour": 20}
    assert facts.versions == {"firmware of MT_1": ("28.39",)}
