"""Changing bytes as a broken disk, a sick driver or a clever user would. Pure."""

import random
from collections.abc import Sequence

PIECES: tuple[bytes, ...] = (
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    "٣".encode(),
    "𝟗".encode(),
    "²".encode(),
    "\u202egnp.exe".encode(),
    "\u2028".encode(),
    b"\x1b[2J\x1b]0;x\x07",
    b"\x9b31m",
    b"\r",
    b"\n",
    b"\t",
    b"-1",
    b"0",
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"1e-400",
    b"9" * 25,
    b"9" * 5000,
    b"18446744073709551616",
    b"-9223372036854775809",
    b"0x1p3",
    b"1_000",
    b" ",
    b"2026-02-30T25:61:61",
    b"9999-12-31T23:59:59",
    b"0000-00-00T00:00:00",
    b"0001-01-01 00:00:00",
    b"[" * 3000,
    b'{"a":' * 1500,
    b"(" * 500,
    b"]",
    b"}",
    b'"',
    b"'",
    b"\\",
    b"\\u0000",
    b'"\\ud800"',
    b"%s%n",
    b"%j",
    b"../../etc/shadow",
    b"$(id)",
    b"`id`",
    b"; id",
    b"@all",
    b"node[0-999999999]",
    b"node[1-9]/[1-9]",
    b"[1-",
    b"a" * 3000,
    b"<script>",
    b"</script>",
    b"<!--",
    b"{{7*7}}",
    b"null",
    b"[flightcheck-claim 1 1]",
    b"[flightcheck-claim 999999999999999999999 1]",
    b" Reason=",
    b" Comment=",
    b" State=IDLE",
    b" UserId=root(0)",
    b"[root@2026-13-41T25:61:61]",
    b"flightcheck: no-go gpu-count: x [job 1]",
    b"[rank0]: ",
    b"Traceback (most recent call last):",
    b"\x80\x04\x95",
    b"cos\nsystem\n(S'id'\ntR.",
    b"\xdf\xff\xff\xff\xff",
    b"true",
    b"[]",
    b"{}",
)
"""What parsers have stumbled over, here and elsewhere."""

Edit = tuple[int, int, int, int]
"""(kind, where, length, what)."""
KINDS = 8


def edited(data: bytes, edits: Sequence[Edit], others: Sequence[bytes], largest: int) -> bytes:
    """`data` after these edits; `others` lend their parts."""
    out = bytearray(data[:largest])
    for kind, where, length, what in edits:
        at = where % (len(out) + 1)
        end = min(len(out), at + length)
        piece = PIECES[what % len(PIECES)]
        if kind == 0 and at < len(out):
            out[at] ^= 1 << (what % 8)
        elif kind == 1:
            out[at:end] = b""
        elif kind == 2:
            out[at:at] = piece
        elif kind == 3:
            out[at:end] = piece
        elif kind == 4:
            out[at:at] = out[at:end] * (1 + what % 4)
        elif kind == 5:
            del out[at:]
        elif kind == 6 and others:
            lender = others[what % len(others)]
            begin = where % (len(lender) + 1)
            out[at:end] = lender[begin : begin + length]
        elif kind == 7:
            _replace_word(out, at, piece)
        del out[largest:]
    return bytes(out)


def _replace_word(out: bytearray, at: int, piece: bytes) -> None:
    """Put a piece in place of the word or number around `at`."""
    ends = b" \t\n,;:=|\"'[]{}()"
    begin = at
    while begin > 0 and out[begin - 1] not in ends:
        begin -= 1
    end = at
    while end < len(out) and out[end] not in ends:
        end += 1
    out[begin:end] = piece


def at_random(chance: random.Random, seeds: Sequence[bytes], largest: int) -> bytes:
    """One input for a run without coverage."""
    if chance.random() < 0.02:
        return chance.randbytes(chance.randrange(0, min(largest, 2048)))
    edits = [
        (
            chance.randrange(KINDS),
            chance.randrange(1 << 30),
            1 << chance.randrange(10),
            chance.randrange(1 << 16),
        )
        for _ in range(1 + chance.randrange(5))
    ]
    return edited(chance.choice(seeds), edits, seeds, largest)
