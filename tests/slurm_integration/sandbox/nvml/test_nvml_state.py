"""The state file: what Python writes, what the library takes and refuses."""

import random
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from slurm_integration.sandbox.nvml import build
from slurm_integration.sandbox.nvml.build import (
    BuildError,
    build_library,
    find_compiler,
    install_library,
    sources,
)
from slurm_integration.sandbox.nvml.hgx import hgx_h100
from slurm_integration.sandbox.nvml.model import (
    SimulatedFault,
    SimulatedField,
    SimulatedGpu,
    SimulatedNvLink,
    SimulatedNvml,
    SimulatedP2p,
    SimulatedProcess,
)
from slurm_integration.sandbox.nvml.mutate import returning, with_fault, with_gpu, with_link
from slurm_integration.sandbox.nvml.state import render_state, write_state

INIT = "out(code(n.nvmlInit))"


def elaborate():
    """A machine that uses every kind of line."""
    machine = with_link(hgx_h100(), 1, 2, active=False, remote_bus_id="", replay_errors=None)
    machine = with_gpu(
        machine,
        0,
        processes=(SimulatedProcess(pid=1, name="a b", memory_bytes=2**40),),
        fields=(SimulatedField(field_id=1, return_code=3), SimulatedField(field_id=2, value=-1)),
    )
    faults = (
        SimulatedFault(symbol="nvmlInit*", effect="hang", after=10**6),
        SimulatedFault(symbol="nvmlDeviceGetSerial", gpu=7, delay_ms=1, return_code=15, times=3),
        SimulatedFault(symbol="nvmlSystemGet?river*", effect="missing"),
    )
    return msgspec.structs.replace(
        machine, faults=faults, p2p=(SimulatedP2p(gpus=(0, 1), capability="atomics"),)
    )


def test_a_machine_survives_json():
    machine = elaborate()
    assert msgspec.json.decode(msgspec.json.encode(machine), type=SimulatedNvml) == machine


def test_the_same_machine_renders_the_same_text():
    assert render_state(elaborate()) == render_state(elaborate())
    assert hgx_h100("a").gpus[0].uuid != hgx_h100("b").gpus[0].uuid


def test_python_and_c_know_the_same_keys():
    header = next(path for path in sources() if path.name == "state.h").read_text()

    def keys(macro):
        body = re.search(rf"#define {macro}\(X\)((?:.*\\\n)*.*)", header)
        return set(re.findall(r"X\((\w+)\)", body.group(1)))

    gpu = {f.name for f in msgspec.structs.fields(SimulatedGpu)}
    link = {f.name for f in msgspec.structs.fields(SimulatedNvLink)}
    assert keys("GPU_TEXTS") | keys("GPU_NUMBERS") == gpu - {"nvlinks", "processes", "fields"}
    assert keys("LINK_NUMBERS") == link - {"remote_bus_id"}


def test_the_library_takes_every_kind_of_line(node):
    read = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(1)
out([n.nvmlDeviceGetNvLinkState(h, 2), code(n.nvmlDeviceGetNvLinkRemotePciInfo, h, 2),
     code(n.nvmlDeviceGetNvLinkErrorCounter, h, 2, 0),
     code(n.nvmlDeviceGetNvLinkErrorCounter, h, 3, 0), n.nvmlSystemGetProcessName(1),
     code(n.nvmlSystemGetDriverVersion)])
"""
    assert node.install(elaborate()).run(read) == [0, 3, 3, 0, "a b", 13]


def test_a_machine_without_gpus_is_a_machine(node):
    read = "n.nvmlInit(); out([n.nvmlDeviceGetCount(), code(n.nvmlDeviceGetHandleByIndex, 0)])"
    assert node.install(SimulatedNvml()).run(read) == [0, 2]


@pytest.mark.parametrize(
    ("edit", "rc"),
    [
        (lambda text: "# a note\n\n" + text.replace("\n", "  \r\n"), 0),
        (lambda text: text.replace("call.", "\tcall."), 0),
        (lambda text: "", 999),
        (lambda text: "\0" + text, 999),
        (lambda text: text.removesuffix("end\n"), 999),
        (lambda text: text[: len(text) // 2], 999),
        (lambda text: text + "gpus 3\n", 999),
        (lambda text: text.replace("nvml 1", "nvml 2"), 999),
        (lambda text: text.replace("gpus 8", "gpus 33"), 999),
        (lambda text: text.replace("gpus 8", "gpus 7"), 999),
        (lambda text: text.replace("gpus 8", "gpus -1"), 999),
        (lambda text: text.replace("gpus 8", "gpus 8\ngpus 8"), 999),
        (lambda text: text.replace("temperature_c", "temprature_c"), 999),
        (lambda text: text.replace("serial 16", "serial " + "9" * 200), 999),
        (lambda text: text.replace("0000:1b:00.0", "zz:00.0"), 999),
        (lambda text: text.replace("power_source 0", "power_source 99999999999999999999"), 999),
        (lambda text: text.replace("power_source 0", "power_source 1x"), 999),
        (lambda text: text.replace("\nend", "\ncall.nvmlInit* explode\nend"), 999),
        (lambda text: text.replace("\nend", "\ncall.nvmlInit*.99 hang\nend"), 999),
        (lambda text: text.replace("\nend", "\ncall.nvmlInit* return\nend"), 999),
        (lambda text: text.replace("\nend", "\ngpu.0.nvlink.36.active 1\nend"), 999),
        (lambda text: text.replace("\nend", "\ngpu.0.process compute 1\nend"), 999),
        (lambda text: text.replace("\nend", "\na.b.c.d.e.f.g 1\nend"), 999),
        (lambda text: text.replace("\nend", "\np2p.0.9.read 1\nend"), 999),
        (
            lambda text: text.replace("\nend", "\n" + "gpu.0.process compute 1 1 x\n" * 65 + "end"),
            999,
        ),
        (lambda text: text.replace("\nend", "\n" + "call.x abort\n" * 257 + "end"), 999),
        (lambda text: text.replace("\nend", "\n" + "." * 100_000 + "\nend"), 999),
    ],
)
def test_what_the_library_makes_of_an_edited_file(node, edit, rc):
    node.install(hgx_h100())
    node.state.write_bytes(edit(render_state(hgx_h100())).encode())
    assert node.run(INIT) == rc


def test_a_corrupt_file_says_which_line_when_asked(node, monkeypatch):
    node.install(hgx_h100())
    node.state.write_text("flightcheck-nvml 1\ngpus two\nend\n")
    monkeypatch.setenv("FLIGHTCHECK_NVML_DEBUG", "1")
    child = node.start(INIT, stderr=subprocess.PIPE)
    assert "line 2 is not understood" in child.communicate(timeout=240)[1]


def test_calls_fail_while_the_file_is_corrupt_and_work_when_it_is_mended(node):
    child = node.install(hgx_h100()).start("""
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
out("ready")
for line in sys.stdin:
    out(code(n.nvmlDeviceGetTemperature, h, 0))
""")
    assert "ready" in child.stdout.readline()
    codes = []
    for change in (
        lambda: node.state.write_text("garbage"),
        node.state.unlink,
        node.state.mkdir,
        lambda: (node.state.rmdir(), node.change(hgx_h100())),
    ):
        change()
        child.stdin.write("\n")
        child.stdin.flush()
        codes.append(int(child.stdout.readline()))
    child.communicate()
    assert codes == [999, 1, 1, 0]


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (with_gpu(hgx_h100(), 0, name="two\nlines"), "printable text"),
        (with_gpu(hgx_h100(), 0, name="x" * 96), "at most 95 bytes"),
        (with_gpu(hgx_h100(), 0, bus_id="1b"), "such as 0000:1b:00.0"),
        (with_gpu(hgx_h100(), 0, uuid=""), "needs a uuid"),
        (with_gpu(hgx_h100(), 0, uuid=hgx_h100().gpus[1].uuid), "uuid of its own"),
        (with_gpu(hgx_h100(), 0, temperature_c=2**64), "64 bits"),
        (with_gpu(hgx_h100(), 0, nvlinks=(SimulatedNvLink(),) * 37), "at most 36 NVLinks"),
        (with_gpu(hgx_h100(), 0, processes=(SimulatedProcess(pid=-1),)), "process id"),
        (with_fault(hgx_h100(), returning("*", 15, 8)), "there is no GPU 8"),
        (with_fault(hgx_h100(), returning("nvmlInit hang", 9)), "a C name or a glob"),
        (with_fault(hgx_h100(), returning("*", -1)), "nvmlReturn from 0"),
        (with_fault(hgx_h100(), *[returning("*", 9)] * 257), "at most 256 faults"),
    ],
)
def test_python_refuses_what_the_library_could_not_take(tmp_path, machine, message):
    write_state(tmp_path / "state", hgx_h100())
    before = (tmp_path / "state").read_bytes()
    with pytest.raises(ValueError, match=message):
        write_state(tmp_path / "state", machine)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    assert (tmp_path / "state").read_bytes() == before


def test_building_again_compiles_nothing(nvml_cache, monkeypatch):
    first = build_library(nvml_cache)
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build_library(nvml_cache) == first


def test_no_compiler_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match="apt-get install gcc"):
        build_library(tmp_path)


def test_a_failed_build_shows_the_compiler_s_words_and_leaves_nothing(tmp_path, monkeypatch):
    compiler = tmp_path / "mycc"
    compiler.write_text("#!/bin/sh\necho 'stdio.h: No such file' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    cache = tmp_path / "cache"
    with pytest.raises(BuildError, match=r"libc6-dev.*\n.*stdio\.h: No such file"):
        build_library(cache)
    assert list(cache.rglob("*.so*")) == []


def test_linked_libraries_read_the_state_beside_the_link(node, tmp_path):
    """Two nodes, one file on disk: each has its own machine."""
    node.install(hgx_h100())
    other = tmp_path / "other"
    other.mkdir()
    (other / node.library.name).symlink_to(node.library)
    write_state(other / node.state.name, SimulatedNvml(gpus=hgx_h100().gpus[:3]))
    count = "n.nvmlInit(); out(n.nvmlDeviceGetCount())"
    assert node.run(count) == 8
    node.library = other / node.library.name
    assert node.run(count) == 3
    (other / node.state.name).unlink()
    assert node.run(count) == 8


def garbage(count):
    """Valid files with bytes flipped, lines dropped, swapped, cut and repeated."""
    chance = random.Random(20240601)
    # Nothing that would hang or abort the driver on purpose.
    base = render_state(elaborate()).replace("hang", "missing").encode()
    for _ in range(count):
        lines = base.split(b"\n")
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(1, len(lines) - 2)
            line = bytearray(lines[at])
            match chance.randrange(5):
                case 0 if line:
                    line[chance.randrange(len(line))] = chance.randrange(256)
                case 1:
                    line = line[: chance.randrange(len(line) + 1)]
                case 2:
                    line = line * chance.randint(2, 40)
                case 3:
                    line = bytearray(lines[chance.randrange(1, len(lines) - 2)])
                case _:
                    line += bytes(chance.randrange(33, 256) for _ in range(chance.randint(1, 99)))
            lines[at] = bytes(line)
        yield b"\n".join(lines)


def test_no_garbage_makes_the_library_misbehave(tmp_path):
    """Under the address and undefined-behaviour sanitizers, which abort at the first fault."""
    driver = tmp_path / "driver"
    files = [str(path) for path in sources() if path.suffix == ".c"]
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all"]
    flags += ["-fsanitize=address,undefined", "-I", str(sources()[0].parent)]
    own = str(Path(__file__).with_name("garbage_driver.c"))
    built = subprocess.run(
        [find_compiler(), *flags, "-o", str(driver), own, *files, "-lpthread", "-ldl"],
        check=False,
        capture_output=True,
        text=True,
    )
    if "cannot find" in built.stderr and "asan" in built.stderr:
        pytest.skip("the sanitizers' libraries are not installed")
    assert built.returncode == 0, built.stderr
    states = tmp_path / "states"
    states.mkdir()
    for number, data in enumerate(garbage(400)):
        (states / f"{number:03d}").write_bytes(data)
    paths = sorted(str(path) for path in states.iterdir())
    done = subprocess.run(
        [str(driver), *paths],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={"ASAN_OPTIONS": "detect_leaks=0", "FLIGHTCHECK_NVML_DEBUG": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    good, bad = (int(word) for word in done.stdout.split())
    # Both kinds were seen: files that still read as a machine, and refused ones.
    assert good + bad == 400
    assert good > 10
    assert bad > 10


def test_installing_over_a_running_library_leaves_it_running(node):
    child = node.install(hgx_h100()).start("""
n.nvmlInit()
out("ready")
for line in sys.stdin:
    out(n.nvmlDeviceGetCount())
""")
    assert "ready" in child.stdout.readline()
    install_library(node.cache, node.folder, SimulatedNvml(gpus=hgx_h100().gpus[:5]))
    stdout, _ = child.communicate("\n", timeout=240)
    assert stdout.strip() == "5"
