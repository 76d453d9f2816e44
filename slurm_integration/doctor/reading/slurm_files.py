"""slurm.conf and the files beside it: includes, gres.conf, plugstack.conf."""

import glob
import os
import re
import stat

from slurm_integration.doctor.model import GresLine, Plugin
from slurm_integration.doctor.reading import elf
from slurm_integration.doctor.reading.files import head
from slurm_integration.doctor.slurm_conf import SlurmConf, joined_lines, parse_written

MAX_CONF = 8 << 20
MAX_DEPTH = 8
MAX_FILES = 100
_INCLUDE = re.compile(r"\s*include\s+(\S+)", re.IGNORECASE)
_PLUGIN = re.compile(
    r"\s*(required|optional)\s+((?:\S*/)?[^/\s]*flightcheck[^/\s]*)(?:\s|$)", re.IGNORECASE
)


def read_slurm_conf(path: str) -> SlurmConf:
    """slurm.conf with its includes. Raises OSError."""
    return parse_written(_with_includes(path, 0), os.path.abspath(path))


def _with_includes(path: str, depth: int) -> str:
    text = head(path, MAX_CONF).decode("utf-8", "replace")
    lines = []
    for line in text.splitlines():
        found = _INCLUDE.match(line)
        if not found:
            lines.append(line)
            continue
        if depth >= MAX_DEPTH:
            raise OSError(40, f"expected at most {MAX_DEPTH} includes in each other", path)
        # Slurm looks for a relative name beside slurm.conf.
        lines.append(_with_includes(os.path.join(os.path.dirname(path), found[1]), depth + 1))
    return "\n".join(lines)


def read_gres(slurm: SlurmConf) -> tuple[GresLine, ...]:
    """The lines of gres.conf on GPUs; none where Slurm has no GPUs or the file is not here."""
    path = os.path.join(os.path.dirname(slurm.path), "gres.conf")
    if not slurm.has("GresTypes", "gpu") or not slurm.path:
        return ()
    try:
        lines = joined_lines(head(path, MAX_CONF).decode("utf-8", "replace"))
    except OSError:
        return ()
    by_itself = any(re.match(r"\s*AutoDetect\s*=\s*(?!off)\w", line, re.I) for line in lines)
    return tuple(
        GresLine(path, number, line.strip()[:200], by_itself or _has_devices(line))
        for number, line in enumerate(lines, 1)
        if re.search(r"\bName\s*=\s*gpu\b", line, re.IGNORECASE)
    )


def _has_devices(line: str) -> bool:
    return bool(re.search(r"\b(Multiple)?Files?\s*=|\bAutoDetect\s*=\s*(?!off)\w", line, re.I))


def read_plugins(slurm: SlurmConf) -> tuple[Plugin, ...]:
    """Our lines in plugstack.conf and the files that it includes."""
    beside = os.path.join(os.path.dirname(slurm.path or "/etc/slurm/slurm.conf"), "plugstack.conf")
    plugins: list[Plugin] = []
    for path in plugstack_files(slurm.text("PlugStackConfig") or beside):
        for number, line in enumerate(_lines(path), 1):
            found = _PLUGIN.match(line)
            if found:
                required = found[1].lower() == "required"
                plugins.append(_plugin(path, number, required, found[2], slurm))
    return tuple(plugins)


def plugstack_files(path: str) -> list[str]:
    """plugstack.conf and what it includes, each once."""
    files = [path]
    for one in files:
        for pattern in includes(one):
            found = sorted(glob.glob(pattern))
            files += [name for name in found if name not in files][: MAX_FILES - len(files)]
    return files


def includes(path: str) -> list[str]:
    """The patterns that a plugstack.conf includes, as absolute paths."""
    patterns = [_INCLUDE.match(line) for line in _lines(path)]
    return [os.path.join(os.path.dirname(path), one[1]) for one in patterns if one]


def _lines(path: str) -> list[str]:
    try:
        return head(path, MAX_CONF).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def _plugin(file: str, line: int, required: bool, name: str, slurm: SlurmConf) -> Plugin:
    folders = slurm.text("PluginDir").split(":") if not name.startswith("/") else [""]
    places = [os.path.join(folder, name) for folder in folders]
    path = next((place for place in places if os.path.lexists(place)), places[0])
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return Plugin(file, line, required, path, "not a regular file")
        release = elf.built_for(head(path, elf.MAX_BYTES))
    except OSError as error:
        return Plugin(file, line, required, path, (error.strerror or str(error)).lower())
    except elf.NotAPlugin as error:
        return Plugin(file, line, required, path, str(error))
    return Plugin(file, line, required, path, built_for=release)
