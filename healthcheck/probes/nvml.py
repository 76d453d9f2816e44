"""The NVIDIA driver and its GPUs through NVML.

The critical path of the prolog: builtins only, no msgspec, and no call twice. Loading the library
and the binding may hang as well as any call, so they are noted like one.
"""

import sys
import time
from typing import Any

from healthcheck.host import Host
from healthcheck.probes._nvml_calls import Calls, Unanswered, error_of, number, text
from healthcheck.probes._nvml_gpu import clock_event_reasons, read_gpu
from healthcheck.probes._nvml_links import read_p2p
from healthcheck.reading import Ask

SUSPICIOUS_REASONS = 0x8 | 0x20 | 0x40 | 0x80
"""HW slowdown, SW thermal, HW thermal, HW power brake: worth a second and a third look."""
SAMPLE_GAP_S = 1.0
LIBRARY_NOT_FOUND = 12
MAX_GPUS = 256

Found = list[tuple[Calls, Any, dict[str, Any]]]


def read(ask: Ask) -> dict[str, Any]:
    """The fields driver, gpus and p2p."""
    started = time.monotonic()
    ask.progress.note("loading libnvidia-ml.so.1")
    try:
        nvml = _load(ask.host)
    except OSError as error:
        return _without_library(error)
    system = Calls(nvml, ask.progress.note, "")
    begun = system.ask("nvmlInit")
    if isinstance(begun, Unanswered):
        if begun.code == LIBRARY_NOT_FOUND:
            return _nothing({"library_missing": True})
        return _nothing({"init_error": error_of("nvmlInit", begun.code)})
    driver: dict[str, Any] = {
        "version": text(system.get("nvmlSystemGetDriverVersion")),
        "nvml_version": text(system.get("nvmlSystemGetNVMLVersion")),
        "cuda_version": number(system.get("nvmlSystemGetCudaDriverVersion")),
    }
    counted = system.ask("nvmlDeviceGetCount")
    if isinstance(counted, Unanswered):
        return _nothing(driver | {"init_error": error_of("nvmlDeviceGetCount", counted.code)})
    driver["gpu_count"] = counted
    gpus, found = _read_gpus(ask, nvml, min(counted, MAX_GPUS))
    p2p = read_p2p(found)
    waited = _sample_again(found)
    for calls, _, gpu in found:
        gpu["errors"] = tuple(calls.errors)
    system.ask("nvmlShutdown")
    driver["calls"] = ask.progress.calls
    driver["seconds"] = round(time.monotonic() - started - waited, 4)
    return {"driver": driver, "gpus": tuple(gpus), "p2p": p2p}


def _load(host: Host) -> Any:
    """pynvml. It imports ctypes.util for a function it never calls on Linux, and that one pulls
    in subprocess, shutil and tempfile: half of the import's 25 ms."""
    if "ctypes.util" in sys.modules:
        return host.nvml()
    stand_in = type(sys)("ctypes.util")
    stand_in.find_library = _find_library  # type: ignore[attr-defined]
    sys.modules["ctypes.util"] = stand_in
    try:
        return host.nvml()
    finally:
        del sys.modules["ctypes.util"]


def _find_library(name: str) -> str | None:
    from ctypes.util import find_library

    return find_library(name)


def _without_library(error: OSError) -> dict[str, Any]:
    """No library here; or one that is there and will not load, which is another matter."""
    told = str(error)
    if isinstance(error, FileNotFoundError) or "cannot open shared object file" in told:
        return _nothing({"library_missing": True})
    reason = text(told) or "it does not load"
    failure = {"call": "loading libnvidia-ml.so.1", "code": LIBRARY_NOT_FOUND, "name": reason}
    return _nothing({"init_error": failure})


def _nothing(driver: dict[str, Any]) -> dict[str, Any]:
    """NVML shows no GPU; what that means depends on what the node should have (law 3)."""
    return {"driver": driver, "gpus": (), "p2p": ()}


def _read_gpus(ask: Ask, nvml: Any, count: int) -> tuple[list[dict[str, Any]], Found]:
    gpus: list[dict[str, Any]] = []
    found: Found = []
    for index in range(count):
        calls = Calls(nvml, ask.progress.note, f"GPU {index}")
        handle = calls.ask("nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, Unanswered):
            gpus.append(_no_handle(index, "nvmlDeviceGetHandleByIndex", handle.code))
            continue
        pci = calls.ask("nvmlDeviceGetPciInfo", handle)
        if isinstance(pci, Unanswered):
            gpus.append(_no_handle(index, "nvmlDeviceGetPciInfo", pci.code))
            continue
        calls.subject = f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
        gpu: dict[str, Any] = {"index": index, "bus_id": calls.subject}
        gpu |= read_gpu(calls, handle, ask.plan.stage, ask.host)
        gpus.append(gpu)
        found.append((calls, handle, gpu))
    return gpus, found


def _no_handle(index: int, call: str, code: int) -> dict[str, Any]:
    return {"index": index, "bus_id": "", "handle_error": error_of(call, code)}


def _sample_again(found: Found) -> float:
    """Two more samples of every GPU whose first one looks bad, all together within about 2 s.

    The seconds waited are ours and not the driver's.
    """
    suspects = [
        (calls, handle, gpu)
        for calls, handle, gpu in found
        if any(mask & SUSPICIOUS_REASONS for mask in gpu["clock_event_reasons"])
    ]
    if not suspects:
        return 0.0
    for _ in range(2):
        time.sleep(SAMPLE_GAP_S)
        for calls, handle, gpu in suspects:
            gpu["clock_event_reasons"] += tuple(clock_event_reasons(calls, handle))
    return 2 * SAMPLE_GAP_S
