"""The files of profiles: what a type of node must have, each figure with its source.

A profile is a TOML file: `name`, `title`, `[match]` (which hardware it is for), `mounts` and
`services`, and one table a check whose keys are the fields of that check's limits:

    [gpu-count]
    gpus = { value = 8, source = "NVIDIA DGX H100 datasheet" }

`extends = "h100-sxm"` begins with another profile's figures, and `without = ["ib-ports"]` drops
some of its tables; a file that extends its own name extends the one in the next folder.
"""

import os
from typing import Annotated, Any

import msgspec

from healthcheck.config import AbsolutePath, Name
from healthcheck.registry import Check, load_checks
from healthcheck.strict_toml import Document, Refused, read_toml

MAX_CHAIN = 4

PciDeviceId = Annotated[
    str,
    msgspec.Meta(pattern=r"^0x[0-9a-f]{4}\Z", description="a PCI device id such as 0x2330"),
]


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A limit and where it comes from."""

    value: Any
    source: Annotated[
        str, msgspec.Meta(min_length=1, description="a text that says where the figure comes from")
    ]


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which hardware a profile is for: PCI device ids of its GPUs (`0x2330`).

    `gpus` decides between profiles that share an id; a node with fewer still matches, since a
    missing GPU must be found and not explained away.
    """

    pci_device_ids: tuple[PciDeviceId, ...] = ()
    gpus: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None


class Profile(msgspec.Struct, frozen=True):
    """A node type. `checks` maps a check's name to its figures by field name."""

    name: str
    title: str
    match: Match = Match()
    mounts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    checks: dict[str, dict[str, Figure]] = {}
    path: str = ""


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a profile's file that are not tables of checks; None where it is silent."""

    name: Name
    title: str
    extends: Name | None = None
    without: tuple[str, ...] = ()
    match: Match | None = None
    mounts: tuple[AbsolutePath, ...] | None = None
    services: tuple[Name, ...] | None = None


HEAD_KEYS = frozenset(Head.__struct_fields__)


def profile_files(folders: list[str]) -> dict[str, str]:
    """Name → path of every profile; an earlier folder hides the same name in a later one."""
    files: dict[str, str] = {}
    for folder in folders:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(".toml") and not entry.startswith("."):
                files.setdefault(entry[:-5], f"{folder}/{entry}")
    return files


def load_profile(name: str, folders: list[str]) -> Profile:
    """NAME.toml of the first folder that has it, with what it extends. Raises Refused."""
    documents = _chain(name, folders)
    heads = [_head(document) for document in documents]
    tables: dict[str, dict[str, Figure]] = {}
    for document, head in zip(reversed(documents), reversed(heads), strict=True):
        tables = {k: v for k, v in tables.items() if k not in head.without}
        for table, figures in _figures(document).items():
            tables[table] = tables.get(table, {}) | figures
    checks, broken = load_checks()
    if not _valid(tables, checks, lenient=bool(broken)):
        from healthcheck.check_tables import profile_faults

        raise Refused(*profile_faults(documents, tables, checks, lenient=bool(broken)))
    return Profile(
        name=name,
        title=heads[0].title,
        match=next((h.match for h in heads if h.match is not None), Match()),
        mounts=next((h.mounts for h in heads if h.mounts is not None), ()),
        services=next((h.services for h in heads if h.services is not None), ()),
        checks=tables,
        path=documents[0].path,
    )


def _chain(name: str, folders: list[str]) -> list[Document]:
    """The files a profile is made of: its own, what it extends, and so on."""
    documents: list[Document] = []
    wanted, where = name, folders
    while True:
        document, index = _find(wanted, where, folders)
        documents.append(document)
        parent = document.tree.get("extends")
        if not isinstance(parent, str):
            return documents
        if len(documents) >= MAX_CHAIN:
            raise Refused(
                f"{documents[0].path}: extends: expected a chain of at most {MAX_CHAIN} profiles, "
                f"found {' → '.join(str(d.tree.get('name')) for d in documents)} → {parent}; "
                "break the circle"
            )
        where = where[index + 1 :] if parent == wanted else folders
        wanted = parent


def _find(name: str, where: list[str], folders: list[str]) -> tuple[Document, int]:
    """The profile's file and the number of the folder it lies in."""
    if "/" not in name and "\0" not in name:
        for index, folder in enumerate(where):
            try:
                return _cached(f"{folder}/{name}.toml"), index
            except FileNotFoundError:
                continue
    from healthcheck.toml_faults import found, unknown

    fault = unknown((name,), profile_files(folders))
    raise Refused(
        f"profile {found(name)}: expected a file in {' or '.join(where) or 'a further folder'}, "
        f"found none; {fault.advice}"
    )


_documents: dict[str, tuple[tuple[int, ...], Document]] = {}


def _cached(path: str) -> Document:
    """The document, parsed once as long as the file stays the same: a run chooses twice."""
    try:
        state = os.stat(path)
    except OSError:
        return read_toml(path)  # which says what is the matter
    stamp = (state.st_ino, state.st_size, state.st_mtime_ns)
    known = _documents.get(path)
    if known is None or known[0] != stamp:
        known = _documents[path] = (stamp, read_toml(path))
    return known[1]


def _head(document: Document) -> Head:
    tree = {key: value for key, value in document.tree.items() if key in HEAD_KEYS}
    try:
        head = msgspec.convert(tree, Head)
    except msgspec.ValidationError as error:
        from healthcheck.toml_faults import struct_notes

        raise Refused(*struct_notes(document._replace(tree=tree), Head, str(error))) from error
    stem = os.path.basename(document.path).removesuffix(".toml")
    if head.name != stem:
        from healthcheck.toml_faults import Fault, found, notes

        fault = Fault(("name",), f"'{stem}', as the file is called", found(head.name))
        raise Refused(*notes(document.path, document.text, [fault]))
    return head


def _figures(document: Document) -> dict[str, dict[str, Figure]]:
    tables = {key: value for key, value in document.tree.items() if key not in HEAD_KEYS}
    try:
        return msgspec.convert(tables, dict[str, dict[str, Figure]])
    except msgspec.ValidationError as error:
        from healthcheck.check_tables import figure_faults

        raise Refused(*figure_faults(document, tables, str(error))) from error


def _valid(tables: dict[str, dict[str, Figure]], checks: dict[str, Check], lenient: bool) -> bool:
    """Whether every table is a check's and makes its limits."""
    for name, figures in tables.items():
        declared = checks.get(name)
        if declared is None:
            if not lenient:
                return False
            continue
        try:
            msgspec.convert({f: figure.value for f, figure in figures.items()}, declared.limits)
        except msgspec.ValidationError:
            return False
    return True
