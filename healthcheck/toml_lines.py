"""On which line a key of a valid TOML document stands, since tomllib does not say.

A scanner that knows tables, dotted and quoted keys, inline tables, arrays and the four kinds of
strings. It is only ever given text that tomllib has accepted.
"""

import re
from collections.abc import Mapping

Path = tuple[str, ...]

_TOKEN = re.compile(
    r'(?P<multi>"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}|\'\'\'(?:[^\']|\'{1,2}(?!\'))*\'{3,5})'
    r'|(?P<string>"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<space>[ \t\r]+)"
    r"|(?P<mark>[\[\]{}=,.])"
    r"|(?P<bare>[^\s\[\]{}=,.#\"']+)",
    re.DOTALL,
)


def line_numbers(text: str) -> dict[Path, int]:
    """Key path → number of the first line that names it. Empty where the text beats the scanner."""
    try:
        return _Scanner(text).document()
    except (IndexError, RecursionError):
        return {}


def line_of(lines: Mapping[Path, int], key: tuple[str | int, ...]) -> int | None:
    """The line of a key, or of the nearest table around it; indices into arrays do not count."""
    path = tuple(part for part in key if isinstance(part, str))
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 1 if lines or not key else None


class _Scanner:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        self.lines: dict[Path, int] = {}
        self.at = 0
        line = 1
        for match in _TOKEN.finditer(text):
            kind, token = str(match.lastgroup), match.group()
            if kind not in ("space", "comment"):
                self.tokens.append((kind, token, line))
            line += token.count("\n")
        self.tokens.append(("newline", "\n", line))

    def document(self) -> dict[Path, int]:
        table: Path = ()
        while self.at < len(self.tokens):
            kind, token, line = self.tokens[self.at]
            if kind == "newline":
                self.at += 1
            elif token == "[" and kind == "mark":
                table = self._header(line)
            else:
                path = self._key(table)
                self._value(path)
        return self.lines

    def _header(self, line: int) -> Path:
        while self.tokens[self.at][1] == "[":
            self.at += 1
        path = self._parts((), line, "]")
        while self.at < len(self.tokens) and self.tokens[self.at][1] == "]":
            self.at += 1
        return path

    def _key(self, table: Path) -> Path:
        return self._parts(table, self.tokens[self.at][2], "=")

    def _parts(self, path: Path, line: int, end: str) -> Path:
        """The parts of a key up to and including the mark that ends it."""
        while True:
            kind, token, _ = self.tokens[self.at]
            self.at += 1
            if kind == "mark" and token == end:
                return path
            if kind in ("bare", "string"):
                path = (*path, _unquoted(token))
                self.lines.setdefault(path, line)

    def _value(self, path: Path) -> None:
        kind, token, _ = self.tokens[self.at]
        if kind == "mark" and token in "{[":
            self.at += 1
            self._entries(path, "}" if token == "{" else "]", keyed=token == "{")
            return
        # A plain value: numbers with points and dates with spaces are several tokens.
        while not (kind == "newline" or (kind == "mark" and token in ",]}")):
            self.at += 1
            kind, token, _ = self.tokens[self.at]

    def _entries(self, path: Path, end: str, *, keyed: bool) -> None:
        while True:
            kind, token, _ = self.tokens[self.at]
            if kind == "newline" or (kind == "mark" and token == ","):
                self.at += 1
            elif kind == "mark" and token == end:
                self.at += 1
                return
            else:
                self._value(self._key(path) if keyed else path)


def _unquoted(token: str) -> str:
    if token[0] == "'":
        return token[1:-1]
    if token[0] == '"':
        import tomllib

        return str(tomllib.loads(f"k = {token}")["k"])
    return token
