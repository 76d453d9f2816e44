"""Which profile a node is judged by, and what makes a profile's file refused."""

import pytest

from healthcheck.model import PciDevice
from healthcheck.profile import (
    BUILTIN_DIR,
    CPU_ONLY,
    UNKNOWN_GPU,
    choose_profile,
    load_profile,
    profile_files,
)
from healthcheck.strict_toml import Refused

H100, L40S, NIC = "0x2330", "0x26b9", "0x1021"


def bus(**counts):
    """PCI devices: bus(gpu={"0x2330": 8}, nic={...}, virtual={...})."""
    devices = []
    for kind, ids in counts.items():
        for device, count in ids.items():
            for _ in range(count):
                devices.append(
                    PciDevice(
                        bus_id=f"0000:{len(devices):02x}:00.0",
                        kind="gpu" if kind == "virtual" else kind,
                        vendor="0x10de",
                        device=device,
                        virtual=kind == "virtual",
                    )
                )
    return tuple(devices)


@pytest.fixture
def site(tmp_path):
    """A folder of the site's own profiles, and a writer for it."""
    folder = tmp_path / "profiles"
    folder.mkdir()

    def write(name, text=None, **keys):
        if text is None:
            ids = ", ".join(f'"{i}"' for i in keys.get("ids", ()))
            text = f'name = "{name}"\ntitle = "T"\n[match]\npci_device_ids = [{ids}]\n'
            text += f"gpus = {keys['gpus']}\n" if "gpus" in keys else ""
        (folder / f"{name}.toml").write_text(text)
        return folder

    write.folder = folder
    write.folders = [str(folder), BUILTIN_DIR]
    return write


def choose(seen, pinned=None, wanted="auto", folders=(BUILTIN_DIR,)):
    return choose_profile(wanted, list(folders), pinned, seen)


def test_eight_h100_are_an_h100_node():
    profile, notes, refused = choose(bus(gpu={H100: 8}, nic={NIC: 8}))
    assert (profile.name, notes, refused) == ("h100-sxm", [], False)


@pytest.mark.parametrize("left", [7, 4, 1])
def test_a_node_that_lost_gpus_keeps_its_profile(left):
    profile, _, refused = choose(bus(gpu={H100: left}))
    assert (profile.name, refused) == ("h100-sxm", False)
    assert profile.checks["gpu-count"]["gpus"].value == 8


def test_a_node_without_gpus_is_cpu_only():
    assert choose(bus(nic={NIC: 2}))[0].name == CPU_ONLY
    assert choose(()) == (load_profile(CPU_ONLY, [BUILTIN_DIR]), [], False)


def test_a_node_that_lost_all_gpus_does_not_turn_into_one_that_expects_none():
    profile, notes, refused = choose((), pinned="h100-sxm")
    assert (profile.name, refused) == ("h100-sxm", False)
    assert "no GPU is on the PCI bus" in notes[0]


def test_a_pci_bus_that_cannot_be_read_is_no_node_without_gpus():
    _, notes, refused = choose(None)
    assert refused
    assert "could not be read" in notes[0]
    assert choose(None, pinned="h100-sxm") == (load_profile("h100-sxm", [BUILTIN_DIR]), [], False)
    assert choose(None, pinned=CPU_ONLY)[0].name == CPU_ONLY


def test_virtual_functions_are_no_gpus():
    assert choose(bus(virtual={H100: 8}))[0].name == CPU_ONLY


def test_gpus_that_no_profile_describes_are_no_easy_go():
    profile, notes, refused = choose(bus(gpu={"0x1234": 4}))
    assert (profile.name, profile.checks, refused) == (UNKNOWN_GPU, {}, True)
    assert "4 × 0x1234" in notes[0]
    assert "flightcheck profile learn" in notes[0]


def test_gpus_without_a_profile_are_still_missed_when_they_are_gone():
    profile, _, refused = choose((), pinned=UNKNOWN_GPU)
    assert (profile.name, refused) == (UNKNOWN_GPU, True)


def test_what_is_seen_wins_over_what_was_pinned_with_a_note():
    profile, notes, refused = choose(bus(gpu={"0x2335": 8}), pinned="h100-sxm")
    assert (profile.name, refused) == ("h200-sxm", False)
    assert "was h100-sxm before" in notes[0]


def test_a_gpu_of_another_model_among_them_is_told():
    profile, notes, _ = choose(bus(gpu={H100: 7, L40S: 1}))
    assert profile.name == "h100-sxm"
    assert "does not describe 1 × 0x26b9" in notes[0]


def test_more_gpus_than_the_profile_knows_are_told():
    profile, notes, _ = choose(bus(gpu={L40S: 8}))
    assert profile.name == "l40s-pcie"
    assert "one of them could be lost unseen" in notes[0]


@pytest.mark.parametrize(
    ("seen", "pinned", "expected"),
    [
        (4, None, "four"),
        (3, None, "four"),
        (5, None, "eight"),
        (8, None, "eight"),
        (9, None, "any"),
        (4, "eight", "eight"),  # an eight-GPU node that lost half of them
        (4, "four", "four"),
        (8, "four", "eight"),
        (4, "gone", "four"),
    ],
)
def test_of_profiles_with_one_id_the_nearest_that_is_large_enough_is_taken(
    site, seen, pinned, expected
):
    site("eight", ids=["0x1111"], gpus=8)
    site("four", ids=["0x1111"], gpus=4)
    site("any", ids=["0x1111"])
    profile, _, refused = choose(bus(gpu={"0x1111": seen}), pinned, folders=site.folders)
    assert (profile.name, refused) == (expected, False)


def test_the_sites_profile_comes_before_a_built_in_one_of_the_same_hardware(site):
    site("ours", ids=[H100], gpus=8)
    chosen = choose(bus(gpu={H100: 8}), "h100-sxm", folders=site.folders)
    assert chosen.profile.name == "ours"


def test_the_sites_profile_hides_the_built_in_one_of_its_name(site):
    site("h100-sxm", ids=[H100], gpus=8)
    assert choose(bus(gpu={H100: 8}), folders=site.folders).profile.checks == {}


def test_a_named_profile_is_taken_whatever_the_hardware_with_a_note():
    profile, notes, refused = choose(bus(gpu={L40S: 4}), wanted="h100-sxm")
    assert (profile.name, refused) == ("h100-sxm", False)
    assert notes == ["profile h100-sxm is for GPUs 0x2330; this node has 4 × 0x26b9"]


def test_a_named_profile_that_does_not_exist_is_refused_with_the_closest():
    profile, notes, refused = choose((), wanted="h100sxm")
    assert (profile.name, profile.checks, refused) == ("h100sxm", {}, True)
    assert "did you mean h100-sxm?" in notes[0]


@pytest.mark.parametrize("name", ["../h100-sxm", "/etc/passwd", "a\0b", "", "x" * 5000])
def test_no_name_leads_out_of_the_folders(name):
    profile, notes, refused = choose((), wanted=name)
    assert refused
    assert profile.checks == {}
    assert notes


def test_a_refused_file_of_the_site_lets_the_built_in_one_stand_in(site):
    site("h100-sxm", f'name = "h100-sxm"\n# {H100}\n[gpu-count]\ngpus = 8\n')
    profile, notes, refused = choose(bus(gpu={H100: 8}), folders=site.folders)
    assert refused
    assert profile.path.startswith(BUILTIN_DIR)
    assert any("expected title to be set" in note for note in notes)


def test_a_file_that_cannot_be_read_is_told_and_not_passed_over(site):
    (site.folder / "broken.toml").mkdir()
    profile, notes, refused = choose(bus(gpu={H100: 8}), folders=site.folders)
    assert (profile.name, refused) == ("h100-sxm", True)
    assert "found a directory" in notes[0]


def test_a_refused_profile_of_other_hardware_does_not_concern_this_node(site):
    site("other", 'name = "other"\n# 0x9999\nnonsense = 1\n')
    assert choose(bus(gpu={H100: 8}), folders=site.folders).refused is False


def test_a_missing_folder_of_the_site_is_no_fault():
    assert choose(bus(gpu={H100: 8}), folders=["/nowhere", BUILTIN_DIR]).refused is False


HEAD = 'name = "p"\ntitle = "T"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('title = "T"', ":1: the file: expected name to be set"),
        ('name = "q"\ntitle = "T"', ":1: name: expected 'p', as the file is called, found 'q'"),
        (HEAD + "mount = []", "p.toml:3: mount: expected a known key"),
        (HEAD + "[gpu-cuont]\ngpus = { value = 8, source = 's' }", "did you mean gpu-count?"),
        (HEAD + "[gpu-count]\ngpus = 8", ":4: gpu-count.gpus: expected a figure with its source"),
        (HEAD + "[gpu-count]\ngpus = { value = 8 }", "expected source to be set"),
        (HEAD + "[gpu-count]\ngpus = { value = 8, source = '' }", "says where the figure"),
        (HEAD + "[gpu-count]\ngpus = { value = 8, source = 's', x = 1 }", ":4: gpu-count.gpus.x:"),
        (HEAD + "[gpu-count]\ngpus = { value = 0, source = 's' }", "whole number of at least 1"),
        (HEAD + "[gpu-count]\ngpu = { value = 8, source = 's' }", "did you mean gpus?"),
        (HEAD + "[gpu-temperature]\nwarn_c = { value = 8, source = 's' }", "expected fail_c"),
        (HEAD + "[match]\npci_device_ids = ['2330']", "expected a PCI device id such as 0x2330"),
        (HEAD + "[match]\npci_device_ids = ['0x20B0']", "match.pci_device_ids[0]"),
        (HEAD + "[match]\ngpus = 0", ":4: match.gpus: expected a whole number of at least 1"),
        (HEAD + "mounts = ['scratch']", ":3: mounts[0]: expected an absolute path"),
        ("\x00", "expected valid TOML"),
    ],
)  # fmt: skip
def test_a_wrong_profile_is_refused_with_line_key_and_advice(site, text, said):
    site("p", text)
    with pytest.raises(Refused) as caught:
        load_profile("p", site.folders)
    assert all(note.startswith(f"{site.folder}/p.toml") for note in caught.value.notes)
    assert any(said in note for note in caught.value.notes), caught.value.notes


def test_a_profile_extends_another_and_changes_what_differs(site):
    site(
        "roce",
        'name = "roce"\ntitle = "R"\nextends = "h100-sxm"\nwithout = ["ib-devices"]\n'
        '[ib-ports]\nlink_layer = { value = "Ethernet", source = "our network" }\n',
    )
    profile, base = load_profile("roce", site.folders), load_profile("h100-sxm", site.folders)
    assert "ib-devices" not in profile.checks
    assert profile.checks["ib-ports"]["link_layer"].value == "Ethernet"
    assert profile.checks["ib-ports"]["active"] == base.checks["ib-ports"]["active"]
    assert (profile.match, profile.services) == (base.match, base.services)
    assert profile.title == "R"


def test_a_profile_that_extends_is_found_by_the_hardware_it_inherits(site):
    site("ours", 'name = "ours"\ntitle = "O"\nextends = "h100-sxm"\n')
    assert choose(bus(gpu={H100: 8}), folders=site.folders).profile.name == "ours"


def test_a_file_that_extends_its_own_name_extends_the_built_in_one(site):
    site(
        "h100-sxm",
        'name = "h100-sxm"\ntitle = "Ours"\nextends = "h100-sxm"\nmounts = ["/scratch"]\n',
    )
    profile = choose(bus(gpu={H100: 8}), folders=site.folders).profile
    assert (profile.title, profile.mounts) == ("Ours", ("/scratch",))
    assert profile.checks["gpu-count"]["gpus"].value == 8


@pytest.mark.parametrize("extends", ["b", "nowhere", "a"])
def test_a_circle_or_a_missing_parent_is_refused(site, extends):
    site("a", f'name = "a"\ntitle = "A"\nextends = "{extends}"\n')
    site("b", 'name = "b"\ntitle = "B"\nextends = "a"\n')
    with pytest.raises(Refused):
        load_profile("a", site.folders)


def test_a_fault_of_the_parent_is_laid_at_the_parents_file(site):
    site("base", 'name = "base"\ntitle = "B"\n[gpu-count]\ngpu = { value = 1, source = "s" }\n')
    site("child", 'name = "child"\ntitle = "C"\nextends = "base"\n')
    with pytest.raises(Refused) as caught:
        load_profile("child", site.folders)
    assert caught.value.notes[0].startswith(f"{site.folder}/base.toml:4: gpu-count.gpu")


def test_a_file_changed_between_two_looks_is_read_again(site):
    site("p", HEAD)
    assert load_profile("p", site.folders).title == "T"
    site("p", 'name = "p"\ntitle = "A longer title"\n')
    assert load_profile("p", site.folders).title == "A longer title"


def test_hidden_files_and_other_endings_are_no_profiles(site):
    (site.folder / ".p.toml.swp").write_text("")
    (site.folder / ".hidden.toml").write_text("")
    (site.folder / "README").write_text("")
    assert set(profile_files([str(site.folder)])) == set()
