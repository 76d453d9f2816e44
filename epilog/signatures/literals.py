"""The fixed text that a regular expression cannot match without.

A healthy log is read at memory speed because only these literals are looked for; the expression
itself runs on the few lines that hold one.
"""

MIN_LENGTH = 6
"""Shorter literals occur in too many healthy lines."""

_QUANTIFIERS = "*+?{"
_SPECIAL_ESCAPES = frozenset("AbBdDsSwWZ0123456789")
_CONTROL_ESCAPES = frozenset("nrtfvaxuUN")


def required_literals(pattern: str) -> tuple[str, ...] | None:
    """One literal for each top-level alternative of `pattern`: the longest run of plain text
    outside groups, classes and repetitions. None where an alternative has none long enough."""
    found = []
    for branch in _branches(pattern):
        longest = max(_runs(branch), key=len, default="")
        if len(longest) < MIN_LENGTH:
            return None
        found.append(longest)
    return tuple(dict.fromkeys(found))


def _branches(pattern: str) -> list[str]:
    """Split at the `|` that are in no group and no class."""
    branches, start, at, depth = [], 0, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = _class_end(pattern, at)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "|" and depth == 0:
            branches.append(pattern[start:at])
            start = at + 1
        at += 1
    branches.append(pattern[start:])
    return branches


def _runs(branch: str) -> list[str]:
    """The runs of plain characters that every match of `branch` holds."""
    runs: list[str] = []
    run, at = "", 0
    while at < len(branch):
        char, after = branch[at], at + 1
        plain: str | None = None
        if char == "\\":
            escaped = branch[at + 1 : at + 2]
            after = at + 2
            if escaped not in _SPECIAL_ESCAPES and escaped not in _CONTROL_ESCAPES:
                plain = escaped
        elif char == "[":
            after = _class_end(branch, at) + 1
        elif char == "(":
            after = _group_end(branch, at) + 1
        elif char not in ".^$":
            plain = char
        after, repeated = _after_quantifier(branch, after)
        if plain is not None and not repeated:
            run += plain
        else:
            runs.append(run)
            run = ""
        at = after
    return [*runs, run]


def _after_quantifier(branch: str, at: int) -> tuple[int, bool]:
    """Where the text goes on after a quantifier at `at`, and whether there was one."""
    if at >= len(branch) or branch[at] not in _QUANTIFIERS:
        return at, False
    closed = branch.find("}", at) if branch[at] == "{" else at
    at = max(closed, at) + 1
    while at < len(branch) and branch[at] in "?+":
        at += 1
    return at, True


def _class_end(pattern: str, at: int) -> int:
    """The index of the `]` that closes the class opened at `at`."""
    at += 2 if pattern[at + 1 : at + 2] == "^" else 1
    first = True
    while at < len(pattern) and (pattern[at] != "]" or first):
        at += 2 if pattern[at] == "\\" else 1
        first = False
    return at


def _group_end(pattern: str, at: int) -> int:
    """The index of the `)` that closes the group opened at `at`."""
    depth = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = _class_end(pattern, at)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return at
