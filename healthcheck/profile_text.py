"""A profile as TOML that loads again."""

import textwrap

from healthcheck.profile_file import Figure, Profile
from healthcheck.toml_text import key_text, value_text


def profile_text(profile: Profile, comments: tuple[str, ...] = ()) -> str:
    """The whole profile, after all it extends, with a source beside each figure."""
    lines = [line for comment in comments for line in _comment(comment)]
    lines += [f"name = {value_text(profile.name)}", f"title = {value_text(profile.title)}"]
    for key, names in (("mounts", profile.mounts), ("services", profile.services)):
        if names:
            lines.append(f"{key} = {value_text(names)}")
    match = profile.match
    if match.pci_device_ids or match.gpus is not None:
        lines += ["", "[match]", f"pci_device_ids = {value_text(match.pci_device_ids)}"]
        lines += [f"gpus = {match.gpus}"] if match.gpus is not None else []
    for name, figures in profile.checks.items():
        lines += ["", f"[{key_text(name)}]"]
        lines += [f"{key_text(field)} = {_figure(figure)}" for field, figure in figures.items()]
    return "\n".join(lines) + "\n"


def _figure(figure: Figure) -> str:
    return value_text({"value": figure.value, "source": figure.source})


def _comment(text: str) -> list[str]:
    clean = "".join(char if char.isprintable() else " " for char in text)
    return textwrap.wrap(clean, 96, initial_indent="# ", subsequent_indent="#   ") or ["#"]
