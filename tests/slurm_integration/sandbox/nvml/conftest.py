import json
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_integration.sandbox.nvml.build import install_library
from slurm_integration.sandbox.nvml.state import STATE_NAME, write_state

# What the consumer does: load the library by its path, so that pynvml's own
# CDLL("libnvidia-ml.so.1") finds it by its SONAME.
PRELUDE = """
import ctypes, json, sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
import pynvml as n

def code(call, *arguments):
    try:
        call(*arguments)
    except n.NVMLError as error:
        return error.value
    return 0

def out(value):
    print(json.dumps(value), flush=True)
"""


class Node:
    """A folder with the library and a state file, as one simulated node has."""

    def __init__(self, cache: Path, folder: Path) -> None:
        self.cache, self.folder = cache, folder
        self.library = folder / "libnvidia-ml.so.1"
        self.state = folder / STATE_NAME

    def install(self, nvml):
        install_library(self.cache, self.folder, nvml)
        return self

    def change(self, nvml):
        write_state(self.state, nvml)

    def start(self, script, **options):
        argv = [sys.executable, "-c", PRELUDE + script, str(self.library)]
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )

    def run(self, script, **options):
        """The values that the script passed to out(), or its one value."""
        argv = [sys.executable, "-c", PRELUDE + script, str(self.library)]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=240, check=False, **options
        )
        assert done.returncode == 0, done.stderr
        values = [json.loads(line) for line in done.stdout.splitlines()]
        return values[0] if len(values) == 1 else values


@pytest.fixture(scope="session")
def nvml_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("nvml-cache")


@pytest.fixture
def node(nvml_cache, tmp_path):
    return Node(nvml_cache, tmp_path / "node")
