"""Files that people write: refused with file, line and key, whatever is in them."""

import os

import msgspec
import pytest

from healthcheck.strict_toml import MAX_BYTES, Refused, convert, parse_toml, read_bounded, read_toml
from healthcheck.toml_faults import Fault, found, key_name, notes
from healthcheck.toml_lines import line_numbers, line_of


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    low: int = 1
    high: int = 2

    def __post_init__(self):
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    inner: Inner = Inner()
    many: dict[str, Inner] = {}
    words: tuple[str, ...] = ()


def refusal(text: str | bytes, kind=Outer) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(Refused) as caught:
        convert(parse_toml(data, "F"), kind)
    return list(caught.value.notes)


def test_a_right_document_becomes_the_struct():
    outer = convert(parse_toml(b'name = "x"\n[inner]\nlow = 0\n', "F"), Outer)
    assert outer == Outer("x", Inner(0, 2))


def test_an_unknown_key_is_refused_with_its_line_and_the_closest_known_one():
    assert refusal('name = "x"\n\n[inner]\nhihg = 3\n') == [
        "F:4: inner.hihg: expected a known key, found 'hihg'; did you mean high?"
    ]


def test_a_key_like_no_other_is_refused_with_the_known_ones():
    (note,) = refusal('name = "x"\nzzz = 1\n')
    assert note.endswith("; known are inner, many, name, words")


def test_every_fault_is_told_and_not_only_the_first():
    told = refusal('name = 1\n[inner]\nlow = "1"\n[many.a]\nhigh = 1.5\n')
    assert [note.split(": ")[0:2] for note in told] == [
        ["F:1", "name"],
        ["F:3", "inner.low"],
        ["F:5", "many.a.high"],
    ]


def test_a_wrong_type_says_what_was_expected_found_and_to_be_done():
    assert refusal('name = "x"\ninner.low = "1"\n') == [
        "F:2: inner.low: expected a whole number, found '1'; remove the quotes"
    ]


def test_limits_that_contradict_each_other_are_laid_at_their_table():
    assert refusal('name = "x"\n[many.b]\nlow = 5\n') == [
        "F:2: many.b: expected values that fit together, found low (5) is above high (2); "
        "correct it"
    ]


def test_a_missing_key_is_named():
    (note,) = refusal("[inner]\nlow = 0\n")
    assert "expected name to be set" in note


def test_one_wrong_element_of_a_list_is_named_by_its_place():
    (note,) = refusal('name = "x"\nwords = ["a", 2]\n')
    assert note.startswith("F:2: words[1]: expected a text in quotes, found 2")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe\x00\x01", "F:1: expected UTF-8 text, found the byte 0xff"),
        (b"a = 1\n\xc3(", "F:2: expected UTF-8 text"),
        (b"a = \x00", "F:1: expected valid TOML"),
        (b"a = 1\na = 2\n", "F:2: expected valid TOML, found: Cannot overwrite a value"),
        (b"\n\nx = [1", "F:3: expected valid TOML"),
        (b"x = " + b"[" * 1900, "F: expected TOML, found brackets nested too deeply"),
        (b"x = 1\ny = " + b"9" * 5000, "F:2: expected valid TOML, found: A line of more than"),
        (b"\xef\xbb\xbfname = 1", "F:1: expected valid TOML, found: a byte order mark"),
        (b"d = 2026-13-45", "F:1: expected valid TOML"),
        (b"x = nan", "F:1: x: expected a finite number, found nan"),
        (b"x = 1\n[t]\ny = [1.0, -inf]", "F:3: t.y[1]: expected a finite number, found -inf"),
        (b"\x1b[31m = 3", "F:1: expected valid TOML"),
        (b"[[many.x]]\nlow = 1\n", "F:1: many.x: expected a table, found a list"),
        (b'"\\u001b[31m" = 3', "F:1: '\\x1b[31m': expected a known key"),
    ],
)
def test_any_bytes_are_refused_with_a_line_and_never_crash(data, said):
    assert any(note.startswith(said) for note in refusal(data)), refusal(data)
    assert not any(ord(char) < 32 for note in refusal(data) for char in note)


def test_random_bytes_never_crash():
    for seed in range(200):
        data = bytes((seed * 7919 + i * i * 31 + i * seed) % 256 for i in range(300))
        with pytest.raises(Refused):
            convert(parse_toml(data, "F"), Outer)


def test_a_dotted_key_of_very_many_parts_is_refused_at_once():
    with pytest.raises(Refused, match="A line of more than"):
        parse_toml(b".".join([b"a"] * 20_000) + b" = 1", "F")


def test_a_huge_file_is_refused_without_being_read(tmp_path):
    path = tmp_path / "huge.toml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(Refused, match=f"expected at most {MAX_BYTES} bytes, found 104857600"):
        read_toml(str(path))


def test_a_device_without_end_is_refused():
    with pytest.raises(Refused, match="expected a regular file"):
        read_bounded("/dev/zero")


def test_a_fifo_does_not_hold_the_reader(tmp_path):
    os.mkfifo(tmp_path / "f")
    with pytest.raises(Refused, match="a device, socket or FIFO"):
        read_bounded(str(tmp_path / "f"))


def test_a_directory_and_a_file_for_a_folder_are_refused(tmp_path):
    with pytest.raises(Refused, match="found a directory"):
        read_bounded(str(tmp_path))
    (tmp_path / "f").write_text("")
    with pytest.raises(Refused, match="Not a directory"):
        read_bounded(f"{tmp_path}/f/x.toml")


def test_a_link_to_nothing_is_no_missing_file(tmp_path):
    (tmp_path / "l").symlink_to("/nowhere/at/all")
    with pytest.raises(Refused, match="a link to nothing"):
        read_bounded(str(tmp_path / "l"))
    with pytest.raises(FileNotFoundError):
        read_bounded(str(tmp_path / "absent"))


def test_a_nul_byte_in_a_name_is_refused():
    with pytest.raises(Refused, match="a NUL byte"):
        read_bounded("/etc/a\0b")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is careful about other people's files")
@pytest.mark.parametrize("mode", [0o666, 0o646])
def test_root_refuses_a_private_file_that_others_may_change(tmp_path, mode):
    path = tmp_path / "c.toml"
    path.write_text("")
    path.chmod(mode)
    with pytest.raises(Refused, match="only root can change"):
        read_bounded(str(path), private=True)
    path.chmod(0o644)
    assert read_bounded(str(path), private=True) == b""
    os.chown(path, 12345, 0)
    with pytest.raises(Refused, match="found owner 12345"):
        read_bounded(str(path), private=True)


DOCUMENT = '''\
# a comment with [brackets] and = signs
top = "a # no comment"
"quoted key" = 1
a.b.c = 2

[table]   # comment
list = [
    1, # one
    { x = 1, y = [2, 3] },
]
text = """
fake = 1
[fake]
"""
raw = \'\'\'
[also.fake]
\'\'\'
when = 1979-05-27 07:32:00
number = 1.5e3

["checks".'gpu-count'.limits]
inline = { value = { deep = "}" }, other = 1 }
[[array]]
key = 1
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("top",), 2),
        (("quoted key",), 3),
        (("a", "b", "c"), 4),
        (("a",), 4),
        (("table",), 6),
        (("table", "list"), 7),
        (("table", "list", 1, "y"), 9),
        (("table", "text"), 11),
        (("table", "raw"), 15),
        (("table", "when"), 18),
        (("table", "number"), 19),
        (("checks", "gpu-count", "limits"), 21),
        (("checks", "gpu-count", "limits", "inline", "value", "deep"), 22),
        (("checks", "gpu-count", "limits", "inline", "other"), 22),
        (("array",), 23),
        (("array", 0, "key"), 24),
        (("table", "absent"), 6),
    ],
)
def test_the_line_of_every_kind_of_key_is_found(key, line):
    assert line_of(line_numbers(DOCUMENT), key) == line


def test_keys_inside_strings_are_no_keys():
    parse_toml(DOCUMENT.encode(), "F")
    assert not any("fake" in part for key in line_numbers(DOCUMENT) for part in key)


def test_a_key_that_is_nowhere_has_no_line():
    assert line_of({}, ("a",)) is None
    assert notes("F", "", [Fault(("a",), "x", "y")]) == ("F: a: expected x, found y; correct it",)


def test_values_are_shown_short_and_harmless():
    assert found("x" * 500).endswith("…'")
    assert found("\x1b[2J") == "'\\x1b[2J'"
    assert found(10**400) == "a number of more than 30 digits"
    assert (found(True), found({}), found([1])) == ("true", "a table", "a list")
    assert key_name(("checks", "a b", 3)) == "checks.'a b'[3]"
