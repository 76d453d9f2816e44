"""A machine's folder over its life: built, broken, healed, broken again."""

import os
import subprocess
import sys
import threading

import pytest

from slurm_integration.sandbox.faults.registry import FaultError, load_faults
from slurm_integration.sandbox.machine.live import (
    STATE,
    MachineError,
    break_machine,
    build_machine,
    environment,
    has_baseline,
    heal_machine,
    machine_of,
    read_record,
    take_baseline,
)
from slurm_integration.sandbox.machine.look import look
from slurm_integration.sandbox.machine.types import NODE_TYPES

COUNT = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "machine"
    build_machine(str(folder), "h100-nvl", "node01")
    return folder


def contents(root, *, but=()):
    """Path → bytes or link target, without what the node itself remembers."""
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and not name.startswith(STATE) and name not in but:
            found[name] = path.read_bytes()
    return found


BOOT = ("machine.json", "proc/sys/kernel/random/boot_id", "proc/uptime")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """A machine that all faults hit in turn, and what it looked like at first."""
    folder = tmp_path_factory.mktemp("lasting") / "machine"
    build_machine(str(folder), "h100-nvl", "node01")
    return folder, contents(folder, but=BOOT)


@pytest.mark.parametrize("fault", [f.name for f in load_faults().values() if "h100-nvl" in f.types])
def test_healing_restores_everything_but_the_boot(lasting, fault):
    root, before = lasting

    break_machine(str(root), fault)
    broken = contents(root, but=BOOT)
    heal_machine(str(root))

    assert contents(root, but=BOOT) == before
    assert (broken != before) == (fault not in {"old-xid-before-boot"})


def test_a_healed_node_is_go_again_and_the_next_fault_is_found_as_well(root):
    for fault in ("xid-79", "ecc-uncorrected", "xid-79"):
        break_machine(str(root), fault)
        machine = machine_of(read_record(str(root)))
        assert look(str(root), machine, "prolog").report.verdict == "no-go"

        heal_machine(str(root))

        healed = machine_of(read_record(str(root)))
        assert look(str(root), healed, "prolog").report.verdict == "go"


def test_a_repair_is_a_reboot(root):
    old = (root / "proc/sys/kernel/random/boot_id").read_text()
    break_machine(str(root), "xid-48")

    record = heal_machine(str(root))

    assert record.boots == 1
    assert record.faults == ()
    assert (root / "proc/sys/kernel/random/boot_id").read_text() != old
    assert "Xid" not in (root / "dev/kmsg").read_text()


def test_several_faults_stand_side_by_side_in_their_order(root):
    break_machine(str(root), "xid-48:0", "row-remap-failure:1")
    record = break_machine(str(root), "ecc-off:0")

    assert record.broken_by == ("xid-48:0", "row-remap-failure:1", "ecc-off:0")
    gpus = machine_of(record).nvml.gpus
    assert (gpus[0].ecc_mode, gpus[1].remapped_rows_failure) == (False, True)


def test_a_fault_with_a_past_gets_a_baseline_in_between(root):
    take_baseline(str(root))

    break_machine(str(root), "ecc-lifetime-only")

    machine = machine_of(read_record(str(root)))
    node = look(str(root), machine, "prolog").snapshot
    aggregate = {gpu.bus_id: gpu.ecc_aggregate_uncorrected for gpu in node.gpus}
    assert 3 in aggregate.values()
    counters = node.baseline.counters
    assert {b: counters[f"{b}|ecc_aggregate_uncorrected"].value for b in aggregate} == aggregate


def test_breaking_a_node_that_never_looked_at_itself_lets_it_look_first(root):
    assert not has_baseline(str(root))

    break_machine(str(root), "ecc-uncorrected")

    machine = machine_of(read_record(str(root)))
    assert look(str(root), machine, "prolog").report.verdict == "no-go"


def test_a_running_process_sees_the_gpu_go_and_come_back(root):
    code = (
        "import sys, pynvml as n\nn.nvmlInit()\nfor _ in sys.stdin:\n"
        " print(n.nvmlDeviceGetCount(), flush=True)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environment(str(root))},
    )  # fmt: skip

    def count():
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    try:
        counts = [count()]
        break_machine(str(root), "gpu-missing")
        counts.append(count())
        heal_machine(str(root))
        counts.append(count())
    finally:
        process.communicate(timeout=240)

    assert counts == ["2", "1", "2"]


def test_two_machines_in_one_process_are_two_machines(tmp_path):
    for name in ("one", "two"):
        build_machine(str(tmp_path / name), "h100-nvl", name)
    break_machine(str(tmp_path / "two"), "gpu-missing")

    counts = [
        subprocess.run(
            [sys.executable, "-c", COUNT], capture_output=True, text=True, check=True,
            env={**os.environ, **environment(str(tmp_path / name))},
        ).stdout.strip()
        for name in ("one", "two")
    ]  # fmt: skip

    assert counts == ["2", "1"]


def test_breaking_from_many_sides_at_once_loses_no_fault(root):
    take_baseline(str(root))
    faults = ["xid-48:0", "xid-48:1", "ecc-off:0", "ecc-off:1", "disk-full", "memory-short"]
    threads = [threading.Thread(target=break_machine, args=(str(root), f)) for f in faults]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    record = read_record(str(root))

    assert sorted(record.broken_by) == sorted(faults)
    assert (root / "dev/kmsg").read_text().count("Xid") == 2


def test_a_machine_is_only_built_into_an_empty_folder(root):
    with pytest.raises(MachineError, match="not empty"):
        build_machine(str(root), "h100-nvl", "node01")


def test_an_unknown_type_is_told_with_those_there_are(tmp_path):
    with pytest.raises(MachineError, match=r"h100-sxm"):
        build_machine(str(tmp_path / "x"), "h1000", "node01")
    assert "h100-sxm" in NODE_TYPES


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "no simulated machine"), ("{", "build the machine again"),
     ('{"type": "vax", "node": "n"}', "another version"),
     ('{"type": "h100-sxm", "node": "n", "version": 9}', "another version")],
)  # fmt: skip
def test_a_folder_without_a_sound_record_is_refused(tmp_path, text, told):
    if text is not None:
        (tmp_path / "machine.json").write_text(text)

    with pytest.raises(MachineError, match=told):
        read_record(str(tmp_path))


def test_a_fault_the_type_cannot_have_is_refused_in_words(root):
    with pytest.raises(FaultError, match="h100-nvl has no ib"):
        break_machine(str(root), "ib-port-down")
