"""What a simulated machine shows of itself, and how its folder changes."""

import json
import os

import pytest
from msgspec.structs import replace

from slurm_integration.sandbox.faults.edit import edit_pci
from slurm_integration.sandbox.machine.describe import describe
from slurm_integration.sandbox.machine.files_pci import config_space
from slurm_integration.sandbox.machine.files_proc import boot_id, records
from slurm_integration.sandbox.machine.materialise import tree_of
from slurm_integration.sandbox.machine.tree import Link, write_changes, write_new
from slurm_integration.sandbox.machine.types import NODE_TYPES


def machine(type_name="h100-sxm", node="node01", **more):
    return describe(NODE_TYPES[type_name], node, **more)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("machine")
    write_new(str(folder), tree_of(machine()))
    return folder


def read(root, path):
    return (root / path).read_text().strip()


def test_describing_twice_gives_the_same_machine_and_another_node_another_identity():
    assert machine() == machine()
    first, second = ({g.uuid for g in machine(node=n).nvml.gpus} for n in ("node01", "node02"))
    assert not first & second


@pytest.mark.parametrize("type_name", sorted(NODE_TYPES))
def test_the_parts_of_every_type_agree_with_each_other(type_name):
    kind, made = NODE_TYPES[type_name], machine(type_name)
    addresses = [f.bus_id for f in made.pci]
    gpus = [f.bus_id for f in made.gpu_functions()]

    assert len(set(addresses)) == len(addresses)
    assert all(f.parent is None or f.parent in addresses for f in made.pci)
    assert len(gpus) == kind.gpus
    assert [g.bus_id for g in made.nvml.gpus] == gpus if kind.gpu else made.nvml is None
    assert {h.bus_id for h in made.hcas} == {f.bus_id for f in made.pci if f.role == "nic"}


def test_nvml_lists_gpus_in_the_order_of_their_addresses():
    for kind in NODE_TYPES.values():
        gpus = [slot.bus_id for slot in kind.slots if slot.role == "gpu"]
        assert gpus == sorted(gpus), kind.name


def test_a_gpu_and_its_nic_hang_below_one_pcie_switch(root):
    real = {
        bus_id: os.path.realpath(root / "sys/bus/pci/devices" / bus_id).split("/")
        for bus_id in ("0000:1b:00.0", "0000:18:00.0")
    }
    shared = "0000:16:00.0"

    assert all(shared in path for path in real.values())
    assert real["0000:1b:00.0"][-1] == "0000:1b:00.0"


def test_links_stay_inside_the_folder_and_lead_somewhere(root):
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path) and "invocation:" not in name and name != "driver":
                assert os.path.exists(path), path
                assert os.path.realpath(path).startswith(str(root))


def test_pci_files_read_as_the_kernel_writes_them(root):
    gpu = "sys/bus/pci/devices/0000:1b:00.0"

    assert read(root, f"{gpu}/vendor") == "0x10de"
    assert read(root, f"{gpu}/device") == "0x2330"
    assert read(root, f"{gpu}/class") == "0x030200"
    assert read(root, f"{gpu}/current_link_speed") == "32.0 GT/s PCIe"
    assert read(root, f"{gpu}/current_link_width") == "16"
    assert "PCI_SLOT_NAME=0000:1b:00.0" in read(root, f"{gpu}/uevent").splitlines()
    assert read(root, f"{gpu}/aer_dev_fatal").splitlines()[-1] == "TOTAL_ERR_FATAL 0"


def test_config_space_holds_the_ids_and_all_ones_once_the_device_is_dead():
    gpu = machine().gpu_functions()[0]

    assert config_space(gpu)[:4] == bytes.fromhex("de103023")
    assert config_space(gpu)[0x0A:0x0C] == bytes.fromhex("0203")
    assert config_space(replace(gpu, dead=True)) == b"\xff" * 256


def test_infiniband_files_read_as_the_kernel_writes_them(root):
    port = "sys/class/infiniband/mlx5_0/ports/1"

    assert read(root, f"{port}/state") == "4: ACTIVE"
    assert read(root, f"{port}/rate") == "400 Gb/sec (4X NDR)"
    assert read(root, f"{port}/counters/link_downed") == "0"
    assert int(read(root, f"{port}/counters/port_xmit_data")) > 0
    device = os.path.realpath(root / "sys/class/infiniband/mlx5_0/device")
    assert device.endswith("/0000:18:00.0")


def test_the_kernel_log_has_the_format_of_dev_kmsg(root):
    lines = (root / "dev/kmsg").read_text().splitlines()
    heads = [line for line in lines if not line.startswith(" ")]

    assert [int(line.split(",")[1]) for line in heads] == list(range(len(heads)))
    stamps = [int(line.split(",")[2]) for line in heads]
    assert stamps == sorted(stamps)
    assert " SUBSYSTEM=pci" in lines
    assert len(list(records(machine().log))) == len(lines)


def test_answers_that_are_no_files_stand_in_host_json(root):
    answers = json.loads(read(root, "host.json"))

    assert answers["node"] == "node01"
    assert answers["space"]["/scratch"]["free_bytes"] > 0
    sdr = answers["commands"]["ipmitool -c sdr type Power Supply"]["stdout"]
    assert sdr.splitlines()[0] == "PS0_Status,C8h,ok,10.1,Presence detected"


def test_every_boot_has_an_id_of_its_own():
    assert boot_id(machine()) == boot_id(machine())
    assert boot_id(machine(boots=1)) != boot_id(machine())


def test_only_files_that_differ_are_written_again(tmp_path):
    before = machine()
    after = edit_pci(before, "0000:1b:00.0", width=8)
    write_new(str(tmp_path), tree_of(before))
    identity = {p: p.lstat().st_ino for p in tmp_path.rglob("*") if not p.is_dir()}

    write_changes(str(tmp_path), tree_of(before), tree_of(after))

    changed = [p.name for p, inode in identity.items() if p.lstat().st_ino != inode]
    assert changed == ["current_link_width"]
    assert {p for p in tmp_path.rglob("*") if not p.is_dir()} == set(identity)


def test_files_that_are_gone_are_removed_with_their_folders_and_others_stay(tmp_path):
    before = {"a/b/one": b"1", "a/two": b"2", "a/link": Link("two")}
    write_new(str(tmp_path), before)
    (tmp_path / "a/mine").write_text("not of the tree")

    write_changes(str(tmp_path), before, {"a/two": b"2"})

    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "mine", "two"]


def test_a_changed_file_never_looks_unchanged_to_a_reader_that_compares_times(tmp_path):
    write_new(str(tmp_path), {"state": b"aa"})
    seen = set()
    for number in range(50):
        old, new = (b"%02d" % n for n in (number, number + 1))
        write_changes(str(tmp_path), {"state": old}, {"state": new})
        status = (tmp_path / "state").stat()
        seen.add((status.st_mtime_ns, status.st_ino))

    assert len({stamp for stamp, _ in seen}) == 50
