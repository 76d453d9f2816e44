"""A folder that stands for a machine with Slurm, and the commands that work on it."""

import os
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

from slurm_integration.commands import install, uninstall

CONF = """\
ClusterName=site
PrologFlags=X11,NoHold
SchedulerParameters=bf_window=600
NodeName=node01
"""


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class Machine:
    """The folder, and `install` and `uninstall` on it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.capsys = capsys
        self.slurm = root / "etc/slurm"
        self.slurm.mkdir(parents=True)
        self.home = self.slurm / "flightcheck"
        self.conf(CONF)

    def conf(self, text: str) -> None:
        (self.slurm / "slurm.conf").write_text(text.replace("ROOT", str(self.root)))

    def install(self, *options: str) -> Answer:
        return self.call(install.command, *options)

    def uninstall(self, *options: str) -> Answer:
        return self.call(uninstall.command, *options)

    def call(self, command, *options: str) -> Answer:
        self.capsys.readouterr()
        code = command.main(["--root", str(self.root), *options], standalone_mode=False)
        said = self.capsys.readouterr()
        return Answer(code, said.out, said.err)

    def tree(self) -> dict[str, tuple]:
        """Every path with its kind, mode and contents."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            state = path.lstat()
            name = str(path.relative_to(self.root))
            if path.is_symlink():
                found[name] = ("link", os.readlink(path))
            elif path.is_dir():
                found[name] = ("folder",)
            else:
                found[name] = ("file", stat.S_IMODE(state.st_mode), path.read_bytes())
        return found

    def site_script(self, name: str, text: str = "#!/bin/sh\nexit 0\n") -> Path:
        path = self.slurm / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def again(self) -> None:
        """As it was before anything was installed."""
        shutil.rmtree(self.root)
        self.slurm.mkdir(parents=True)
        self.conf(CONF)


@pytest.fixture
def machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Machine:
    root = tmp_path / "machine"
    root.mkdir(mode=0o755)
    return Machine(root, capsys)
