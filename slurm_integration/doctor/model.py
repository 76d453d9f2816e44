"""The doctor's nouns: what was read, and what is complained about."""

from enum import StrEnum

import msgspec

from healthcheck.config import Config
from slurm_integration.doctor.slurm_conf import SlurmConf


class Level(StrEnum):
    """How much a complaint matters: something breaks, or something could be better."""

    WRONG = "wrong"
    ADVICE = "advice"


class Complaint(msgspec.Struct, frozen=True):
    """One thing that does not fit. `mend` is the line to write or the command to run."""

    level: Level
    subject: str
    what: str
    why: str
    mend: str
    rule: str = ""


class Program(msgspec.Struct, frozen=True):
    """A program of ours that a script names. `path` is "" where it is nowhere to be found."""

    name: str
    written: str
    path: str
    runs: bool


class Script(msgspec.Struct, frozen=True):
    """One file that Slurm runs. `problem`: why it could not be read; "" where it was.

    `first_line` is "" for a file without one, `binary` where the file is no text. `loose`: who
    but root can change it, in words (`/etc/slurm is mode 0777`). `closed`: folders above it, or
    itself, that a user can't enter or read. `sets`: variables that the script assigns.
    """

    path: str
    problem: str = ""
    mode: int = 0
    binary: bool = False
    first_line: str = ""
    interpreter_missing: str = ""
    loose: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    sets: frozenset[str] = frozenset()
    programs: tuple[Program, ...] = ()


class Hook(msgspec.Struct, frozen=True):
    """One entry of slurm.conf that names scripts. `matched` is empty for a glob of nothing."""

    name: str
    pattern: str
    globbed: bool
    scripts: tuple[Script, ...]


class Installation(msgspec.Struct, frozen=True):
    """A flightcheck on this machine: its prefix, its version ("" unknown), who leads there."""

    prefix: str
    version: str
    seen_by: tuple[str, ...]


class Interpreter(msgspec.Struct, frozen=True):
    """Our Python. `start_s`: the best of three starts; None where it does not start at all."""

    path: str
    start_s: float | None
    problem: str = ""
    uncompiled: int = 0
    modules: int = 0
    folder: str = ""


class Folder(msgspec.Struct, frozen=True):
    """A folder of ours. `loose`: who but root can change it."""

    role: str
    path: str
    exists: bool
    problem: str = ""
    loose: tuple[str, ...] = ()
    mode: int = 0
    uid: int = 0


class Settings(msgspec.Struct, frozen=True):
    """The configuration as the hooks will find it."""

    path: str
    config: Config
    epilog_deadline_s: float
    shared_dir: str | None
    notes: tuple[str, ...] = ()
    refused: bool = False
    exists: bool = True
    loose: tuple[str, ...] = ()


class Plugin(msgspec.Struct, frozen=True):
    """Our line in plugstack.conf. `built_for` is (major, minor) of Slurm; None if it can't be read.

    `problem`: why the file is no plugin (not there, not ELF, not one of ours).
    """

    file: str
    line: int
    required: bool
    path: str
    problem: str = ""
    built_for: tuple[int, int] | None = None


class GresLine(msgspec.Struct, frozen=True):
    """A line of gres.conf that describes GPUs."""

    file: str
    line: int
    text: str
    has_devices: bool


class Hardware(msgspec.Struct, frozen=True):
    """GPUs on the PCI bus, and why NVML can't be used ("" where it can or was not asked)."""

    gpus: int = 0
    nvml_problem: str = ""


class Facts(msgspec.Struct, frozen=True):
    """All that was read. `slurm` is None where Slurm was not or could not be asked."""

    node: str
    now: float
    settings: Settings
    slurm: SlurmConf | None = None
    slurm_trouble: str = ""
    is_node: bool = False
    hooks: tuple[Hook, ...] = ()
    installations: tuple[Installation, ...] = ()
    interpreter: Interpreter = Interpreter("", None)
    folders: tuple[Folder, ...] = ()
    munge_socket: str = ""
    munge_problem: str = ""
    hardware: Hardware = Hardware()
    plugins: tuple[Plugin, ...] = ()
    gres: tuple[GresLine, ...] = ()
    history_problem: str = ""

    def named(self, *names: str) -> list[Hook]:
        """The hooks of these slurm.conf entries."""
        return [hook for hook in self.hooks if hook.name in names]


class Examination(msgspec.Struct, frozen=True):
    """What the doctor says. `looked_at`: the sources, in words."""

    node: str
    looked_at: tuple[str, ...]
    rules: int
    complaints: tuple[Complaint, ...]

    def count(self, level: Level) -> int:
        """How many complaints of this level."""
        return sum(one.level is level for one in self.complaints)
