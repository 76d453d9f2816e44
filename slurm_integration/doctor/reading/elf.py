"""The Slurm release that a plugin was built for, read from its file: loading it would run it.

An ELF-64 file, little-endian (System V ABI): the section of dynamic symbols names `plugin_version`,
the section that holds that address gives its place in the file.
"""

import struct

MAX_BYTES = 16 << 20
_DYNSYM, _NOBITS = 11, 8


class NotAPlugin(ValueError):  # noqa: N818 - an answer about a file
    """Why a file is no SPANK plugin, in words."""


def built_for(data: bytes) -> tuple[int, int]:
    """Slurm's (major, minor). SLURM_VERSION_NUM is major << 16 | minor << 8 | micro."""
    number = symbol_u32(data, "plugin_version")
    return number >> 16 & 0xFF, number >> 8 & 0xFF


def symbol_u32(data: bytes, name: str) -> int:
    """An exported 32-bit constant. Raises NotAPlugin."""
    if data[:4] != b"\x7fELF":
        raise NotAPlugin("not a shared library")
    if data[4:6] != b"\x02\x01":
        raise NotAPlugin("not a 64-bit little-endian library")
    try:
        return _symbol(data, name.encode())
    except (struct.error, IndexError, ValueError) as error:
        if isinstance(error, NotAPlugin):
            raise
        raise NotAPlugin("a damaged library") from error


def _symbol(data: bytes, name: bytes) -> int:
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = _shape(data)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            start, _, _, _, value, length = struct.unpack_from("<IBBHQQ", data, at)
            begin = names + start
            if data[begin : data.index(b"\0", begin)] == name and length >= 4:
                return _read(data, sections, value)
    raise NotAPlugin(f"no symbol {name.decode()}: not a plugin of Slurm's")


def _shape(data: bytes) -> tuple[int, int]:
    size, count = struct.unpack_from("<HH", data, 58)
    if size < 64 or count > 4096:
        raise NotAPlugin("a damaged library")
    return size, count


def _read(data: bytes, sections: list[tuple[int, ...]], address: int) -> int:
    for _, kind, _, start, offset, size, *_ in sections:
        if start and start <= address <= start + size - 4 and kind != _NOBITS:
            return int(struct.unpack_from("<I", data, offset + address - start)[0])
    raise NotAPlugin("a damaged library")
