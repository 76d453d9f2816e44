"""Every way the simulated driver can be sick, as the real pynvml sees it."""

import json
import os
import signal
import subprocess
import time

import pytest

from slurm_integration.sandbox.nvml.hgx import hgx_h100
from slurm_integration.sandbox.nvml.model import SimulatedFault
from slurm_integration.sandbox.nvml.mutate import (
    behaving,
    lost,
    returning,
    with_fault,
    with_gpu,
    with_link,
    without_gpu,
)

SICK = """
n.nvmlInit()
h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
out("ready")
sys.stdin.readline()
"""
READ = (
    SICK
    + """
try:
    out(n.nvmlDeviceGetTemperature(h[3], 0))
except n.NVMLError as error:
    out({"error": error.value})
"""
)


def answer(child):
    return json.loads(child.stdout.readline())


def go(child):
    child.stdin.write("\n")
    child.stdin.flush()


@pytest.fixture
def sick(node):
    """Starts a script on a healthy machine, makes it sick, lets the script go on."""
    children = []

    def start(script, machine):
        child = node.install(hgx_h100()).start(script)
        children.append(child)
        assert answer(child) == "ready"
        node.change(machine)
        go(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("code", [3, 4, 8, 10, 11, 15, 16, 17, 999])
def test_any_return_code_of_one_call_on_one_gpu(sick, code):
    script = (
        SICK
        + """
out([[code(n.nvmlDeviceGetTemperature, g, 0) for g in h],
     [code(n.nvmlDeviceGetPowerUsage, g) for g in h]])
"""
    )
    child = sick(script, with_fault(hgx_h100(), returning("nvmlDeviceGetTemperature", code, 3)))
    assert answer(child) == [[0, 0, 0, code, 0, 0, 0, 0], [0] * 8]


def test_a_lost_gpu_is_lost_to_every_call_and_counted_still(sick):
    script = (
        SICK
        + """
out([n.nvmlDeviceGetCount(), [code(n.nvmlDeviceGetName, g) for g in h],
     [code(n.nvmlDeviceGetHandleByIndex, i) for i in range(8)],
     code(n.nvmlDeviceGetHandleByPciBusId, "0000:61:00.0"),
     code(n.nvmlDeviceGetP2PStatus, h[0], h[3], 2), code(n.nvmlDeviceGetP2PStatus, h[0], h[1], 2),
     code(n.nvmlDeviceGetNvLinkState, h[3], 0), code(n.nvmlDeviceGetFieldValues, h[3], [230])])
"""
    )
    count, names, handles, *others = answer(sick(script, with_fault(hgx_h100(), lost(3))))
    assert count == 8
    assert names == handles == [0, 0, 0, 15, 0, 0, 0, 0]
    assert others == [15, 15, 0, 15, 15]


def test_a_gpu_that_leaves_the_list_does_not_move_the_handles_of_the_others(sick):
    script = (
        SICK
        + """
uuid = n.nvmlDeviceGetUUID(h[4])
out([n.nvmlDeviceGetCount(), code(n.nvmlDeviceGetName, h[3]), n.nvmlDeviceGetIndex(h[4]),
     n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(3)) == uuid, uuid])
"""
    )
    healthy = hgx_h100()
    child = sick(script, without_gpu(healthy, 3))
    assert answer(child) == [7, 15, 3, True, healthy.gpus[4].uuid]


def test_a_missing_symbol_is_function_not_found(sick):
    script = (
        SICK
        + """
out([code(n.nvmlDeviceGetRepairStatus, h[0]), code(n.nvmlDeviceGetCurrentClocksEventReasons, h[0]),
     code(n.nvmlDeviceGetCurrentClocksThrottleReasons, h[0])])
"""
    )
    faults = [
        behaving("nvmlDeviceGetRepairStatus", "missing"),
        behaving("nvmlDevice*ClocksEventReasons", "missing"),
    ]
    assert answer(sick(script, with_fault(hgx_h100(), *faults))) == [13, 13, 0]


def test_a_name_stands_for_its_newer_versions(sick):
    script = SICK + "out([code(n.nvmlDeviceGetHandleByIndex, i) for i in range(8)])"
    child = sick(script, with_fault(hgx_h100(), returning("nvmlDeviceGetHandleByIndex", 8, 6)))
    assert answer(child) == [0, 0, 0, 0, 0, 0, 8, 0]


@pytest.mark.parametrize("code", [4, 9, 18, 999])
def test_the_driver_can_refuse_to_start(node, code):
    node.install(with_fault(hgx_h100(), returning("nvmlInit*", code)))
    assert node.run("out([code(n.nvmlInit), code(n.nvmlDeviceGetCount)])") == [code, 1]


def test_one_dead_link_answers_errors_and_the_others_work(sick):
    script = (
        SICK
        + """
out([[code(n.nvmlDeviceGetNvLinkState, h[3], link) for link in range(18)],
     n.nvmlDeviceGetFieldValues(h[3], [(164, 7)])[0].nvmlReturn])
"""
    )
    expected = [[999 if link == 7 else 0 for link in range(18)], 999]
    assert answer(sick(script, with_link(hgx_h100(), 3, 7, error=999))) == expected


def test_a_slow_call_answers_truthfully_after_its_delay(sick):
    script = (
        SICK
        + """
import time
begin = time.monotonic()
value = n.nvmlDeviceGetTemperature(h[3], 0)
out([value, time.monotonic() - begin])
"""
    )
    slow = SimulatedFault(symbol="nvmlDeviceGetTemperature", gpu=3, effect="continue", delay_ms=400)
    value, seconds = answer(sick(script, with_fault(hgx_h100(), slow)))
    assert value == 32
    assert seconds >= 0.4


def test_a_transient_fault_skips_then_hits_then_heals(sick):
    script = SICK + "out([code(n.nvmlDeviceGetPowerUsage, h[3]) for _ in range(6)])"
    fault = SimulatedFault(
        symbol="nvmlDeviceGetPowerUsage", gpu=3, return_code=27, after=1, times=2
    )
    assert answer(sick(script, with_fault(hgx_h100(), fault))) == [0, 27, 27, 0, 0, 0]


def test_the_first_fault_that_matches_wins(sick):
    script = SICK + "out([code(n.nvmlDeviceGetPowerUsage, g) for g in h[2:4]])"
    faults = [returning("nvmlDeviceGetPowerUsage", 16, 3), returning("nvmlDevice*", 999)]
    assert answer(sick(script, with_fault(hgx_h100(), *faults))) == [999, 16]


def test_abort_kills_the_caller(sick):
    child = sick(READ, with_fault(hgx_h100(), behaving("*", "abort", 3)))
    assert child.wait(timeout=240) == -signal.SIGABRT


def test_a_hung_call_hangs_and_ends_by_sigterm(sick):
    child = sick(READ, with_fault(hgx_h100(), behaving("nvmlDeviceGetTemperature", "hang", 3)))
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=1)
    child.terminate()
    assert child.wait(timeout=240) == -signal.SIGTERM


def test_a_deaf_hang_ends_only_by_sigkill(sick):
    child = sick(READ, with_fault(hgx_h100(), behaving("*", "hang-deaf", 3)))
    time.sleep(0.5)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        child.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=1)
    child.kill()
    assert child.wait(timeout=240) == -signal.SIGKILL


def test_a_hang_ends_when_the_driver_recovers(sick, node):
    child = sick(READ, with_fault(hgx_h100(), behaving("*", "hang", 3)))
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.5)
    node.change(with_gpu(hgx_h100(), 3, temperature_c=77))
    assert answer(child) == 77


def test_an_abandoned_hang_does_not_outlive_its_machine(sick, node):
    child = sick(READ, with_fault(hgx_h100(), behaving("*", "hang-deaf", 3)))
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.5)
    node.state.unlink()
    assert answer(child) == {"error": 1}
    assert child.wait(timeout=240) == 0


def test_a_hang_blocks_one_thread_only(sick):
    script = (
        SICK
        + """
import threading
threading.Thread(target=n.nvmlDeviceGetTemperature, args=(h[3], 0), daemon=True).start()
import time
time.sleep(0.3)
out(n.nvmlDeviceGetTemperature(h[2], 0))
import os
os._exit(0)
"""
    )
    assert answer(sick(script, with_fault(hgx_h100(), behaving("*", "hang", 3)))) == 32


def test_threads_read_while_the_machine_changes(sick, node):
    script = (
        SICK
        + """
import threading
stop, wrong = threading.Event(), []
def read(g):
    while not stop.is_set():
        value = n.nvmlDeviceGetTemperature(g, 0)
        if not 30 <= value < 90:
            wrong.append(value)
threads = [threading.Thread(target=read, args=(g,)) for g in h]
[t.start() for t in threads]
sys.stdin.readline()
stop.set()
[t.join() for t in threads]
out(wrong)
"""
    )
    machine = hgx_h100()
    child = sick(script, machine)
    for temperature in range(30, 90):
        node.change(with_gpu(machine, temperature % 8, temperature_c=temperature))
    go(child)
    assert answer(child) == []


def test_every_quick_change_is_seen_without_a_new_init(node):
    script = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
for line in sys.stdin:
    out(n.nvmlDeviceGetTemperature(h, 0))
"""
    machine = hgx_h100()
    child = node.install(machine).start(script)
    seen = []
    # Two digits always: files of one size, written as fast as the machine can.
    for temperature in range(10, 90):
        node.change(with_gpu(machine, 0, temperature_c=temperature))
        go(child)
        seen.append(answer(child))
    child.communicate()
    assert seen == list(range(10, 90))


def test_error_names_still_work_when_everything_fails(node):
    node.install(with_fault(hgx_h100(), returning("*", 15)))
    assert node.run("""
try:
    n.nvmlInit()
except n.NVMLError as error:
    out([error.value, str(error)])
""") == [15, "GPU is lost"]


@pytest.mark.parametrize("variable", [None, "FLIGHTCHECK_NVML_STATE"])
def test_a_missing_state_is_uninitialized_and_says_so_only_when_asked(node, variable):
    node.install(hgx_h100())
    environment = dict(os.environ)
    if variable:
        environment[variable] = str(node.folder / "elsewhere")
    else:
        node.state.unlink()
    argv = node.start("out(code(n.nvmlInit))", env=environment, stderr=subprocess.PIPE)
    stdout, stderr = argv.communicate(timeout=240)
    assert (stdout.strip(), stderr) == ("1", "")
    environment["FLIGHTCHECK_NVML_DEBUG"] = "1"
    argv = node.start("out(code(n.nvmlInit))", env=environment, stderr=subprocess.PIPE)
    assert "no state file at" in argv.communicate(timeout=240)[1]
