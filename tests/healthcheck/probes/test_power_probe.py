"""The power probe: hwmon alarms and ipmitool's words."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.host import RecordedHost
from healthcheck.probes import _ipmi, power
from healthcheck.reading import Ask, Plan, Progress

COMMAND = "ipmitool -c sdr type Power Supply"


def ask(root: Path, stage: str = "sweep") -> Ask:
    return Ask(RecordedHost(str(root)), Plan(stage=stage), Progress())


def chip(root: Path, number: int, **files: str) -> None:
    folder = root / "sys/class/hwmon" / f"hwmon{number}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def bmc(root: Path, stdout: str, code: int | None = 0, stderr: str = "") -> None:
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev/ipmi0").touch()
    answer = {"code": code, "stdout": stdout, "stderr": stderr}
    (root / "host.json").write_text(json.dumps({"commands": {COMMAND: answer}}))


def supplies(root: Path, stage: str = "sweep") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = power.read(ask(root, stage))["power_supplies"]
    return found


def states(text: str) -> dict[str, str]:
    return {entry["name"]: entry["state"] for entry in _ipmi.parse_power_sdr(text)}


def test_a_machine_without_sensors_has_an_empty_list_in_the_prolog(tmp_path: Path) -> None:
    assert supplies(tmp_path, "prolog") == []


def test_the_prolog_never_starts_ipmitool(tmp_path: Path) -> None:
    bmc(tmp_path, "PS1 Status,C8h,ok,10.1,Presence detected\n")
    assert supplies(tmp_path, "prolog") == []
    assert [s["state"] for s in supplies(tmp_path, "health")] == ["ok"]


def test_only_power_chips_are_heard(tmp_path: Path) -> None:
    chip(tmp_path, 0, name="nct6775\n", in7_alarm="1\n")
    chip(tmp_path, 1, name="coretemp\n", temp1_crit_alarm="1\n")
    chip(tmp_path, 2, name="pmbus\n", in1_alarm="0\n", power1_alarm="0\n")
    assert supplies(tmp_path, "prolog") == [
        {"name": "pmbus hwmon2", "state": "ok", "origin": "hwmon", "detail": None}
    ]


def test_an_alarm_is_named_with_its_label(tmp_path: Path) -> None:
    chip(tmp_path, 3, name="dps920ab\n", in1_lcrit_alarm="1\n", in1_label="vin\n", in2_alarm="0\n")
    (found,) = supplies(tmp_path, "prolog")
    assert (found["state"], found["detail"]) == ("alarm", "in1_lcrit_alarm (vin)")


@pytest.mark.parametrize("content", ["", "N/A\n", "\x00\xff", "9" * 5000])
def test_an_odd_alarm_file_is_unknown_and_not_healthy(tmp_path: Path, content: str) -> None:
    chip(tmp_path, 0, name="pmbus\n", in1_alarm=content)
    assert [s["state"] for s in supplies(tmp_path, "prolog")] == ["unknown"]


def test_a_chip_without_alarm_files_is_left_out(tmp_path: Path) -> None:
    chip(tmp_path, 0, name="power_meter\n", power1_average="1\n")
    assert supplies(tmp_path, "prolog") == []


@pytest.mark.parametrize(
    ("file", "channel"),
    [
        ("in1_alarm", "in1"),
        ("power12_crit_alarm", "power12"),
        ("curr1_max_alarm", "curr1"),
        ("in1_lcrit_alarm", "in1"),
        ("temp1_crit_alarm", None),
        ("fan1_alarm", None),
        ("in_alarm", None),
        ("in1_input", None),
        ("in1_beep_alarm", None),
    ],
)
def test_which_files_are_alarms_of_power(file: str, channel: str | None) -> None:
    assert power.parse_alarm(file) == channel


def test_discrete_sensors_of_several_makers() -> None:
    text = (
        "PS1 Status,C8h,ok,10.1,Presence detected\n"
        "PS2 Status,C9h,ok,10.2,Presence detected, Power Supply AC lost\n"
        "PS3 Status,CAh,ok,10.3,Presence detected, Failure detected\n"
        "PS4 Status,CBh,ok,10.4,\n"
        "PSU5_Status,DFh,ns,10.5,No Reading\n"
        "PS6 Status,CCh,ok,10.6,Presence detected, Predictive failure\n"
        "PS7 Status,CDh,ok,10.7,Presence detected, Power Supply Inactive\n"
        "Power Supply 8,06h,ok,10.8,0 Watts, Presence detected, Failure detected\n"
        "PS Redundancy,77h,ok,7.1,Fully Redundant\n"
    )
    assert states(text) == {
        "PS1 Status": "ok",
        "PS2 Status": "input-lost",
        "PS3 Status": "failed",
        "PS4 Status": "absent",
        "PSU5_Status": "unknown",
        "PS6 Status": "alarm",
        "PS7 Status": "ok",
        "Power Supply 8": "failed",
        "PS Redundancy": "ok",
    }


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("Redundancy Lost", "redundancy-lost"),
        ("Non-Redundant: Sufficient from Redundant", "redundancy-lost"),
        ("Non-Redundant: Insufficient Resources", "insufficient"),
        ("Redundancy Degraded from Fully Redundant", "alarm"),
        ("AC out-of-range, but present", "alarm"),
        ("AC lost or out-of-range", "input-lost"),
        ("Config Error: Vendor Mismatch", "alarm"),
        ("Predictive Failure Asserted", "alarm"),
        ("Predictive Failure Deasserted", "ok"),
        ("Something new", "unknown"),
    ],
)
def test_what_a_sensor_says(said: str, state: str) -> None:
    assert _ipmi.parse_states("PS", [said]) == state


def test_sensors_of_one_name_are_told_apart_by_their_entity() -> None:
    text = "Status,64h,ok,10.1,Presence detected\nStatus,65h,ok,10.2,Power Supply AC lost\n"
    assert states(text) == {"Status 10.1": "ok", "Status 10.2": "input-lost"}


def test_the_table_form_reads_the_same() -> None:
    text = (
        "PS Redundancy    | 74h | ns  |  7.1 | No Reading\n"
        "PSU1             | 62h | ok  | 10.1 | Presence detected\n"
        "PSU2             | 63h | ok  | 10.2 | Presence detected, Power Supply AC lost\n"
    )
    assert states(text) == {"PS Redundancy": "unknown", "PSU1": "ok", "PSU2": "input-lost"}


def test_threshold_sensors_tell_alarms() -> None:
    text = "PSU1 Input,0,Watts,cr\nPSU2 Input,310,Watts,ok\nPSU3 Input,,,ns\nnoise,a,b,c\n"
    assert states(text) == {"PSU1 Input": "alarm", "PSU2 Input": "ok", "PSU3 Input": "unknown"}


def test_only_entity_ten_counts_as_a_supply() -> None:
    text = (
        "PS1,1h,ok,10.1,Presence detected\n"
        "PS Redundancy,2h,ok,10.9,Fully Redundant\n"
        "VR,3h,ok,3.1,State Asserted\n"
    )
    kinds = [entry["kind"] for entry in _ipmi.parse_power_sdr(text)]
    assert kinds == ["supply", "redundancy", "sensor"]


def test_a_failing_ipmitool_is_unknown_with_its_words(tmp_path: Path) -> None:
    bmc(tmp_path, "", 1, "Could not open device at /dev/ipmi0\nmore\n")
    (source,) = supplies(tmp_path)
    assert (source["kind"], source["state"]) == ("source", "unknown")
    assert "Could not open device" in source["detail"]
    assert "more" not in source["detail"]


def test_a_killed_ipmitool_is_unknown(tmp_path: Path) -> None:
    bmc(tmp_path, "", None)
    assert "no answer within" in supplies(tmp_path)[0]["detail"]


def test_a_sensor_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    bmc(tmp_path, "PS1 Status,C8h,ok,10.1,Presence detected\n", 1, "Error reading sensor")
    assert [s["state"] for s in supplies(tmp_path)] == ["ok"]


def test_without_ipmitool_the_source_is_absent(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/ipmi0").touch()
    (source,) = supplies(tmp_path)
    assert (source["state"], source["detail"]) == ("absent", "ipmitool is not installed")


@given(st.text())
def test_any_sdr_text_gives_well_formed_entries(text: str) -> None:
    for entry in _ipmi.parse_power_sdr(text):
        assert set(entry) <= {"name", "state", "origin", "detail", "kind"}
        assert entry["name"]


@given(st.lists(st.lists(st.sampled_from(["PS", "0Ah", "ok", "ns", "cr", "10.1", "", "AC lost"]))))
def test_any_columns_give_a_known_state(rows: list[list[str]]) -> None:
    known = {"ok", "failed", "input-lost", "insufficient", "redundancy-lost", "alarm", "absent"}
    for entry in _ipmi.parse_power_sdr("\n".join(",".join(row) for row in rows)):
        assert entry["state"] in known | {"unknown"}


@given(st.text())
def test_any_file_name_is_an_alarm_or_not(text: str) -> None:
    channel = power.parse_alarm(text)
    assert channel is None or text.startswith(channel)
    assert power.parse_power_chip(text) in (True, False)


@given(st.text(), st.lists(st.text()))
def test_any_states_add_up_to_one_state(name: str, said: list[str]) -> None:
    assert isinstance(_ipmi.parse_states(name, said), str)
