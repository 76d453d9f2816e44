"""This machine: its role, our folders, munge, GPUs, the history's database."""

import importlib.util
import os
import socket
import stat
import sys

from healthcheck.command import run_command
from healthcheck.config import Config, load_config, section, state_dir_here
from healthcheck.host import NVML, NVML_FOLDERS, Host, recorded, root_of
from slurm_integration.doctor.model import Folder, Hardware, Settings
from slurm_integration.doctor.reading.files import loose
from slurm_integration.doctor.slurm_conf import SlurmConf

MUNGE_SOCKET = "/run/munge/munge.socket.2"
MUNGE_TIMEOUT_S = 2.0
NVML_TIMEOUT_S = 10.0
DATABASE_TIMEOUT_S = 15.0
_NVIDIA, _DISPLAY = "0x10de", ("0x0300", "0x0302")


def read_settings(path: str) -> Settings:
    """The configuration, and who can change it."""
    config, notes, refused = load_config(path)
    try:
        epilog = section(Config() if refused else config, "epilog")
    except ValueError:  # load_config has refused it already
        epilog = section(Config(), "epilog")
    exists = os.path.lexists(path)
    return Settings(
        path,
        config,
        epilog_deadline_s=getattr(epilog, "deadline_s", 0.0),
        shared_dir=getattr(epilog, "shared_dir", None),
        notes=tuple(notes),
        refused=refused,
        exists=exists,
        loose=loose(path) if exists else (),
    )


def is_slurmd(name: bytes) -> bool:
    """Whether a process of this name is slurmd. Pure.

    Debian's is a link to slurmd-wlm, and from 23.11 on it is that after it has started itself anew.
    """
    return name == b"slurmd" or name.startswith(b"slurmd-")


def is_node() -> bool:
    """Whether slurmd runs here, or has started us."""
    if os.environ.get("SLURMD_NODENAME"):
        return True
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/comm", "rb") as file:
                if is_slurmd(file.read(16).strip()):
                    return True
        except OSError:
            continue
    return False


def read_folders(settings: Settings) -> tuple[Folder, ...]:
    """The state folder, which the first look makes, and the folders that the site named."""
    found = [_folder("state_dir", state_dir_here(settings.config), needed=False)]
    if settings.shared_dir:
        found.append(_folder("[epilog] shared_dir", settings.shared_dir, needed=True))
    if settings.config.drain.seats_dir:
        found.append(_folder("[drain] seats_dir", settings.config.drain.seats_dir, needed=True))
    if settings.config.metrics_dir:
        found.append(_folder("metrics_dir", settings.config.metrics_dir, needed=True))
    return tuple(found)


def _folder(role: str, path: str, *, needed: bool) -> Folder:
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return Folder(role, path, exists=False, problem="not there" if needed else "")
    except OSError as error:
        return Folder(role, path, exists=True, problem=error.strerror or str(error))
    problem = ""
    if not stat.S_ISDIR(state.st_mode):
        problem = "not a folder"
    elif os.geteuid() == 0 and not os.access(path, os.W_OK):
        problem = "can't be written (a read-only file system?)"
    # node_exporter's folder may be its own: figures there judge nobody.
    free = role == "metrics_dir"
    mode = stat.S_IMODE(state.st_mode)
    return Folder(role, path, True, problem, () if free else loose(path), mode, state.st_uid)


def read_munge(slurm: SlurmConf) -> tuple[str, str]:
    """(munged's socket, why it does not answer or "")."""
    path = slurm.option("AuthInfo", "socket") or MUNGE_SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(MUNGE_TIMEOUT_S)
        try:
            door.connect(path)
        except OSError as error:
            return path, error.strerror or str(error)
    return path, ""


def read_hardware(host: Host) -> Hardware:
    """NVIDIA GPUs on the PCI bus and, where there are any, whether NVML loads."""
    gpus = 0
    try:
        devices = host.list_dir("/sys/bus/pci/devices")
    except OSError:
        return Hardware()
    for device in devices:
        try:
            vendor, kind = (
                host.read_text(f"/sys/bus/pci/devices/{device}/{name}")
                for name in ("vendor", "class")
            )
        except OSError:
            continue
        gpus += vendor == _NVIDIA and kind.startswith(_DISPLAY)
    return Hardware(gpus, _nvml_problem(host) if gpus else "")


def _nvml_problem(host: Host) -> str:
    if recorded(host):
        there = any(os.path.exists(f"{root_of(host)}/{place}/{NVML}") for place in NVML_FOLDERS)
        return "" if there else f"no {NVML}"
    # In a child: a sick driver can hold whoever loads its library.
    code = f"import ctypes; ctypes.CDLL({NVML!r}).nvmlInit_v2"
    try:
        done = run_command([sys.executable, "-I", "-c", code], NVML_TIMEOUT_S)
    except OSError as error:
        return f"NVML could not be tried: {error.strerror}"
    if done.code is None:
        return f"{NVML} did not load within {NVML_TIMEOUT_S:.0f} s"
    told = done.stderr.strip().splitlines()[-1:] or [""]
    return "" if done.code == 0 else f"{NVML} can't be loaded: {told[0][:200]}"


def read_history(config: Config, *, node: bool) -> str:
    """Why the history's database can't be used, or ""; asked only where the site named one.

    Nothing is made or migrated. A compute node that has no SQLAlchemy is no admin host.
    """
    if not config.history_db:
        return ""
    if importlib.util.find_spec("sqlalchemy") is None:
        told = "SQLAlchemy is not installed: pip install 'flightcheck[fleet]' on the admin host"
        return "" if node else told
    argv = [sys.executable, "-I", "-m", "slurm_integration.doctor.reading.history_child"]
    try:
        # Not in the arguments: those are for everybody to see, and a URL may hold a password.
        done = run_command(argv, DATABASE_TIMEOUT_S, env={"FLIGHTCHECK_DB": config.history_db})
    except OSError as error:
        return f"the database could not be tried: {error.strerror}"
    if done.code is None:
        return f"the database did not answer within {DATABASE_TIMEOUT_S:.0f} s"
    return "" if done.code == 0 else done.stdout.strip()[:300] or f"exit code {done.code}"
