"""The system probe: memory, EDAC, modules, clock; each fails alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.host import LocalHost, RecordedHost
from healthcheck.probes import system
from healthcheck.reading import Ask, Plan, Progress

MEMINFO = "MemTotal:       2113407600 kB\nMemFree:  1 kB\nMemAvailable:   2000000000 kB\n"


def read(root: Path, stage: str = "sweep") -> dict[str, Any]:
    return system.read(Ask(RecordedHost(str(root)), Plan(stage=stage), Progress()))


def put(root: Path, path: str, text: str | bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def test_memory_is_in_bytes() -> None:
    assert system.parse_meminfo(MEMINFO) == {
        "total_bytes": 2113407600 * 1024,
        "available_bytes": 2000000000 * 1024,
    }


@pytest.mark.parametrize(
    "text", ["", "MemTotal: N/A\n", "MemTotal: 0 kB\n", "MemTotal: 12\n", "MemTotal: -5 kB\n",
             "MemTotal: " + "9" * 400 + " kB\n", "XMemTotal: 5 kB\n"],
)  # fmt: skip
def test_odd_meminfo_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a line 'MemTotal"):
        system.parse_meminfo(text)


def test_each_field_fails_alone(tmp_path: Path) -> None:
    put(tmp_path, "proc/meminfo", b"\xff\x00garbage")
    put(tmp_path, "proc/modules", "nvidia 1 2 - Live 0x0\n")
    facts = read(tmp_path)
    assert facts["modules"] == ["nvidia"]
    assert facts["memory_controllers"] == []
    assert facts["problems"]["memory"]["kind"] == "failed"
    assert facts["problems"]["clock"]["kind"] == "absent"


def test_the_prolog_skips_the_clock(tmp_path: Path) -> None:
    put(tmp_path, "host.json", json.dumps({"clock": {"synchronised": True}}))
    assert "clock" not in read(tmp_path, "prolog")
    assert read(tmp_path, "prolog")["problems"]["clock"]["kind"] == "skipped"
    assert read(tmp_path, "health")["clock"]["synchronised"] is True


def test_error_counters_of_each_controller_and_the_modules_to_blame(tmp_path: Path) -> None:
    edac = "sys/devices/system/edac/mc"
    put(tmp_path, f"{edac}/mc0/ce_count", "0\n")
    put(tmp_path, f"{edac}/mc0/ue_count", "0\n")
    put(tmp_path, f"{edac}/mc0/dimm0/dimm_ce_count", "0\n")
    put(tmp_path, f"{edac}/mc1/ce_count", "7\n")
    put(tmp_path, f"{edac}/mc1/ue_count", "1\n")
    put(tmp_path, f"{edac}/mc1/dimm0/dimm_ce_count", "7\n")
    put(tmp_path, f"{edac}/mc1/dimm0/dimm_ue_count", "1\n")
    put(tmp_path, f"{edac}/mc1/dimm0/dimm_label", "CPU0_DIMM_A1\n")
    put(tmp_path, f"{edac}/mc1/dimm1/dimm_ce_count", "0\n")
    put(tmp_path, f"{edac}/power/control", "auto\n")
    assert read(tmp_path)["memory_controllers"] == [
        {"name": "mc0", "corrected": 0, "uncorrected": 0, "modules": []},
        {
            "name": "mc1",
            "corrected": 7,
            "uncorrected": 1,
            "modules": [{"label": "CPU0_DIMM_A1", "corrected": 7, "uncorrected": 1}],
        },
    ]


@pytest.mark.parametrize("content", ["", "N/A", "-1", "1e3", "٣", "9" * 30, "\x00"])
def test_an_odd_counter_is_not_a_number(tmp_path: Path, content: str) -> None:
    put(tmp_path, "sys/devices/system/edac/mc/mc0/ce_count", content)
    (controller,) = read(tmp_path)["memory_controllers"]
    assert controller["corrected"] is None


def test_modules_are_those_live_and_those_built_in(tmp_path: Path) -> None:
    put(tmp_path, "proc/modules", "nvidia 1 2 - Live 0x0\nnvidia_uvm 1 0 - Unloading 0x0\n")
    for name in ("nvidia", "nvidia_uvm", "ipv6"):
        (tmp_path / "sys/module" / name).mkdir(parents=True)
    assert read(tmp_path)["modules"] == ["ipv6", "nvidia"]


def test_a_kernel_without_module_files_is_absent(tmp_path: Path) -> None:
    assert read(tmp_path)["problems"]["modules"]["kind"] == "absent"


def test_this_machine_tells_its_memory_and_its_clock() -> None:
    facts = system.read(Ask(LocalHost(), Plan(), Progress()))
    assert facts["memory"]["total_bytes"] > 1 << 28
    assert facts["clock"]["maximum_error_s"] >= 0


@given(st.text())
def test_any_meminfo_gives_a_size_or_a_value_error(text: str) -> None:
    try:
        assert (system.parse_meminfo(text)["total_bytes"] or 0) > 0
    except ValueError:
        pass


@given(st.text())
def test_any_modules_text_gives_names(text: str) -> None:
    live, other = system.parse_modules(text)
    assert all(isinstance(name, str) and name for name in live | other)


@given(st.text())
def test_any_count_is_a_number_or_none(text: str) -> None:
    count = system.parse_count(text)
    assert count is None or count >= 0
