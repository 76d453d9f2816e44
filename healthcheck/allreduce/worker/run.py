"""Entry point: `interpreter -I run.py MESSAGE_FD SLOTS_FD`, the plan as JSON on standard input.

Executed by path and not as a module, so it first makes its own folder a package.
"""

import importlib.util
import os
import sys
from types import ModuleType

PACKAGE = "flightcheck_worker"


def load(folder: str) -> ModuleType:
    """This folder as the package PACKAGE, whatever it is called where it is installed."""
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    return package


def main() -> None:
    """Make the package, import torch, read the plan, lead."""
    load(os.path.dirname(os.path.abspath(__file__)))
    importlib.import_module(PACKAGE + ".leader").lead(int(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
