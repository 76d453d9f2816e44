"""One kind of error, whatever is wrong with a text."""

import msgspec
import pytest

from healthcheck.strict_json import decode_json, decode_unbounded


class Kept(msgspec.Struct):
    """A small form."""

    name: str = ""
    count: int = 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"name":1}',
        b'{"name":"\xff"}',
        b'{"name":"\\ud800"}',
        b'{"count":1e999}',
        b'{"count":NaN}',
        b'{"count":' + b"9" * 5000 + b"}",
        b'{"x":' + b"[" * 100_000,
        b'{"x":' + b'{"a":' * 100_000,
        b'{"count":9223372036854775808}',
        b'{"x":[{"y":-9223372036854775809}]}',
    ],
)
def test_what_is_no_such_form_is_a_msgspec_error(data):
    with pytest.raises(msgspec.MsgspecError):
        decode_json(data, Kept)


@pytest.mark.parametrize("count", [0, -(2**63), 2**63 - 1])
def test_whole_numbers_of_64_bits_go_both_ways(count):
    kept = Kept("12345678901234567890123", count)
    assert decode_json(msgspec.json.encode(kept), Kept) == kept


def test_longer_ones_are_for_those_who_look_at_each():
    assert decode_unbounded(b'{"count":9223372036854775808}', Kept).count == 2**63
    with pytest.raises(msgspec.MsgspecError):
        decode_unbounded(b"[" * 100_000)


def test_without_a_form_it_is_plain_data():
    assert decode_json(b'{"a":[1,2.5,null]}') == {"a": [1, 2.5, None]}
