"""Slurm's file name patterns, expanded as far as an epilog can. Pure.

`man sbatch`, "filename pattern": a backslash anywhere means that nothing is expanded; `%5j` pads
with zeros; what stands for one node, step or task (`%N %n %s %t`) becomes a wildcard, since each
has a file of its own.
"""

import re
from collections.abc import Mapping

MAX_PATH = 4096
DEFAULT_OUTPUT = "slurm-%j.out"
PER_TASK = frozenset("Nnst")
MAX_PER_TASK = 4
_CODE = re.compile(r"%(\d{0,2})([A-Za-z%])")
_MAGIC = re.compile(r"[*?[]")


def needs(pattern: str | None) -> set[str]:
    """The codes of a pattern, such as {"j", "x"}."""
    if not pattern or "\\" in pattern:
        return set()
    return {code for _, code in _CODE.findall(pattern)} - {"%"}


def expand(pattern: str, known: Mapping[str, str], work_dir: str | None) -> str | None:
    """A glob for the files of `pattern`, absolute; None where something in it is not known.

    `known`: code → text. Its texts and the rest of the pattern match literally: a job name may
    hold `*`, and a slash in one would lead elsewhere than Slurm wrote.
    """
    if not pattern or len(pattern) > MAX_PATH or "\0" in pattern:
        return None
    if "\\" in pattern:
        path = escape(pattern.replace("\\", ""))
    else:
        missing = needs(pattern) - known.keys() - PER_TASK
        if missing:
            return None
        path = _expanded(pattern, known)
    if path.startswith("/"):
        return path
    return f"{escape(work_dir.rstrip('/'))}/{path}" if work_dir else None


def expand_site(pattern: str, known: Mapping[str, str], work_dir: str | None) -> str | None:
    """As `expand`, for a pattern of the site's own configuration, whose wildcards are meant."""
    if needs(pattern) - known.keys() - PER_TASK:
        return None
    path = _CODE.sub(lambda m: _value(m, known), pattern)
    if path.startswith("/"):
        return path
    return f"{escape(work_dir.rstrip('/'))}/{path}" if work_dir else None


def escape(text: str) -> str:
    """`text` as a glob that matches it alone."""
    return _MAGIC.sub(lambda m: f"[{m.group()}]", text)


def _expanded(pattern: str, known: Mapping[str, str]) -> str:
    parts = []
    end = 0
    for match in _CODE.finditer(pattern):
        parts += [escape(pattern[end : match.start()]), _value(match, known)]
        end = match.end()
    return "".join([*parts, escape(pattern[end:])])


def _value(match: "re.Match[str]", known: Mapping[str, str]) -> str:
    width, code = match.groups()
    if code == "%":
        return "%"
    text = known.get(code)
    if text is None:
        return "*"
    text = text.replace("/", "_")[:255]
    return escape(text.zfill(min(int(width or 0), 10)) if text.isdecimal() else text)


def codes_of_name(path: str, pattern: str, known: Mapping[str, str]) -> dict[str, str]:
    """What a file's name tells of the node and task that wrote it: {"N": "node01", "t": "3"}."""
    if "\\" in pattern or not needs(pattern) & PER_TASK:
        return {}
    if sum(code in PER_TASK for _, code in _CODE.findall(pattern)) > MAX_PER_TASK:
        return {}  # each multiplies the ways in which a name can be read
    parts, end, seen = [], 0, set()
    for match in _CODE.finditer(pattern):
        code = match.group(2)
        parts.append(re.escape(pattern[end : match.start()]))
        end = match.end()
        if code in PER_TASK and code not in known and code not in seen:
            seen.add(code)
            parts.append(rf"(?P<{code}>{r'[^/]+?' if code == 'N' else r'[0-9]+'})")
        elif code in PER_TASK and code not in known:
            parts.append("[^/]+?")
        else:
            parts.append(re.escape("%" if code == "%" else known.get(code, "")))
    parts.append(re.escape(pattern[end:]) + r"\Z")
    found = re.search(("" if pattern.startswith("/") else r"(?:\A|/)") + "".join(parts), path)
    return found.groupdict() if found else {}
