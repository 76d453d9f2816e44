"""The bandwidth formula is nccl-tests', and the rank that others wait for is found."""

import pytest

from healthcheck.allreduce.busbw import bandwidth, busbw, latest
from healthcheck.allreduce.sizes import parse_size, show_size

# (bytes, ranks, time in µs, busbw in GB/s) as all_reduce_perf printed them: 8 GPUs on one node,
# 24 GPUs on three nodes, two DGX Spark. Times are printed with 5 digits, busbw with 2 decimals.
PRINTED = [
    (32768, 8, 18.66, 3.07),
    (1048576, 8, 27.76, 66.11),
    (4194304, 8, 53.24, 137.87),
    (16777216, 8, 121.33, 242.00),
    (33554432, 8, 195.40, 300.51),
    (1048576, 24, 1626.5, 1.24),
    (16777216, 24, 1334.9, 24.09),
    (67108864, 24, 24410, 5.27),
    (65536, 2, 67.93, 0.96),
]


@pytest.mark.parametrize(("size", "ranks", "micros", "printed"), PRINTED)
def test_busbw_is_what_nccl_tests_prints(size, ranks, micros, printed):
    assert busbw(size, micros / 1e6, ranks) == pytest.approx(printed, abs=0.006, rel=2e-4)


@pytest.mark.parametrize(("seconds", "ranks"), [(0.0, 8), (-1.0, 8), (1.0, 0), (1.0, 1)])
def test_what_has_no_bandwidth_has_none(seconds, ranks):
    assert busbw(1 << 30, seconds, ranks) == 0.0


def test_an_iteration_takes_as_long_as_its_slowest_rank():
    point = bandwidth(
        8_000_000_000, "bfloat16", 8,
        {0: [1.0, 2.0, 1.0], 1: [1.5, 1.0, 1.0]}, {0: 4.0, 1: 3.5},
    )  # fmt: skip
    assert (point.median_s, point.fastest_s, point.iterations) == (1.5, 1.0, 3)
    assert point.busbw_gb_s == pytest.approx(8 / 1.5 * 1.75, abs=1e-3)
    assert point.mean_busbw_gb_s == pytest.approx(8 / 1.25 * 1.75, abs=1e-3)


def test_no_iterations_are_no_figure():
    assert bandwidth(1, "float32", 2, {}, {}) is None
    assert bandwidth(1, "float32", 2, {0: [], 1: []}, {0: 0.0, 1: 0.0}) is None


def test_the_rank_that_waits_least_is_late():
    times = {0: [0.5, 0.52, 0.5], 1: [0.1, 0.1, 0.12], 2: [0.5, 0.5, 0.53], 3: [0.49, 0.5, 0.5]}
    late, rank = latest(times, 0.02)
    assert rank == 1
    assert late == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(
    "times",
    [
        {},
        {0: [0.5]},
        {0: [0.5], 1: [0.495], 2: [0.5]},  # noise
        {0: [0.1], 1: [0.3], 2: [0.5], 3: [0.7]},  # nobody stands out
        {0: [0.001], 1: [0.01], 2: [0.01]},  # below the floor
    ],
)
def test_nobody_is_called_late_for_noise(times):
    assert latest(times, 0.02) == (None, None)


@pytest.mark.parametrize(
    ("text", "size"), [("1M", 1 << 20), ("64m", 64 << 20), ("1G", 1 << 30), ("2GiB", 2 << 30),
                       ("512KB", 512 << 10), ("4096", 4096), ("4098", 4096)],
)  # fmt: skip
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1M", "1.5G", "0", "3", "1T", "999999999999999G", "٣M"])
def test_odd_sizes_are_refused_with_what_is_expected(text):
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


@pytest.mark.parametrize(("size", "text"), [(1 << 20, "1M"), (3 << 30, "3G"), (1500, "1500")])
def test_sizes_are_shown(size, text):
    assert show_size(size) == text
