"""Every check, what it means, its figures and their sources."""

from collections.abc import Iterator
from importlib import import_module

import msgspec

from docs.generate import HEAD, cell
from healthcheck.profile import BUILTIN_DIR, Profile, load_profile, profile_files
from healthcheck.registry import Check, load_checks


def page() -> str:
    """The whole page as Markdown."""
    declared, _ = load_checks()
    ours = [
        one for _, one in sorted(declared.items()) if one.module.startswith("healthcheck.checks.")
    ]
    profiles = [load_profile(name, [BUILTIN_DIR]) for name in sorted(profile_files([BUILTIN_DIR]))]
    lines = [
        HEAD.format(source="the docstrings of healthcheck/checks and healthcheck/profiles")
        + "# Every check",
        "",
        f"{len(ours)} checks. `flightcheck explain NAME` shows the same on a terminal, with the",
        "figures in force on that node. A check judges nothing where its facts could not be",
        "measured: it is then *unmeasured*, and the verdict is never better than *unknown*.",
        "",
        *_index(ours),
    ]
    for one in ours:
        lines += ["", *_section(one, profiles)]
    return "\n".join(lines) + "\n"


def _index(checks: list[Check]) -> Iterator[str]:
    """One line a check, gathered by file: a file is a subject."""
    by_module: dict[str, list[Check]] = {}
    for one in checks:
        by_module.setdefault(one.module, []).append(one)
    yield "| subject | check | healthy is |"
    yield "|---|---|---|"
    for module, group in sorted(by_module.items()):
        subject = (import_module(module).__doc__ or "").strip().split("\n")[0].rstrip(".")
        for one in group:
            healthy = one.doc.split("\n\n")[0]
            yield f"| {cell(subject)} | [{one.name}](#{one.name}) | {cell(healthy)} |"
            subject = ""


def _section(one: Check, profiles: list[Profile]) -> Iterator[str]:
    yield f"## {one.name}"
    yield ""
    for paragraph in one.doc.split("\n\n"):
        text = " ".join(paragraph.split())
        head, colon, rest = text.partition(": ")
        known = colon and head in ("What it means", "What we do", "What to do")
        yield f"**{head}:** {rest}" if known else text
        yield ""
    yield f"Stages: {', '.join(one.stages)}. Reads: {', '.join(one.needs) or 'nothing'}."
    yield f"Source: {one.source}."
    fields = msgspec.structs.fields(one.limits)
    if fields:
        yield ""
        yield from _limits(one, profiles)


def _limits(one: Check, profiles: list[Profile]) -> Iterator[str]:
    """The figures: as built in, then as each node type sets them, with where they come from."""
    if one.limits.__doc__:
        yield " ".join(one.limits.__doc__.split())
        yield ""
    yield "| limit | value | where | source |"
    yield "|---|---|---|---|"
    for field in msgspec.structs.fields(one.limits):
        name = field.encode_name
        if field.required:
            yield f"| `{name}` | set by the node type | | |"
        else:
            default = field.default
            if default is msgspec.NODEFAULT:
                made = field.default_factory
                default = made() if callable(made) else "none"
            yield f"| `{name}` | {_shown(default)} | built in | |"
        for (value, source), names in _grouped(one.name, name, profiles).items():
            yield f"| | {value} | {', '.join(names)} | {cell(source)} |"


def _grouped(check: str, limit: str, profiles: list[Profile]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for profile in profiles:
        figure = profile.checks.get(check, {}).get(limit)
        if figure is not None:
            found.setdefault((_shown(figure.value), figure.source), []).append(profile.name)
    return found


def _shown(value: object) -> str:
    if value is None or value == () or value == {}:
        return "none"
    if isinstance(value, list | tuple):
        return cell(", ".join(map(str, value)))
    if isinstance(value, dict):
        return cell(", ".join(f"{key} {figure}" for key, figure in value.items()))
    return cell(value)
