import os
import re

import pytest

from epilog.scan.prefix import PrefixParser
from epilog.scan.sight import Eye
from epilog.signatures import SignatureError, check_patterns, load

CATALOGUE = load()
HEALTHY = os.path.join(os.path.dirname(__file__), "healthy_lines.txt")


def test_every_expression_compiles_and_every_named_field_is_a_group():
    assert check_patterns(CATALOGUE) == []


@pytest.mark.parametrize("signature", CATALOGUE.signatures, ids=lambda s: s.id)
def test_a_signature_sees_its_own_example_and_takes_its_fields(signature):
    sights = Eye(CATALOGUE).look(1, signature.example.encode(), [signature], PrefixParser())
    assert [s.signature.id for s in sights] == [signature.id]
    assert {k: v for k, v in sights[0].fields.items() if v} == {
        k: v for k, v in signature.expect.items() if v
    }


@pytest.mark.parametrize("signature", CATALOGUE.signatures, ids=lambda s: s.id)
def test_the_scanner_finds_the_example_by_its_literals(signature):
    if signature.after_traceback:
        return
    assert any(trigger in signature.example for trigger in signature.triggers)


@pytest.mark.parametrize("advice", CATALOGUE.advice, ids=lambda a: a.id)
def test_advice_is_what_its_example_says(advice):
    assert re.search(advice.pattern, advice.example)
    assert any(trigger in advice.example for trigger in advice.triggers)


def test_no_signature_makes_evidence_of_healthy_lines(scan):
    with open(HEALTHY, encoding="utf-8") as file:
        text = file.read()
    assert text.count("\n") >= 60
    assert [(e.signature, e.text) for e in scan(text).evidence] == []
    assert scan(text).exits == ()
    assert scan(text).works == ()


def test_healthy_overflow_and_checkpoint_lines_are_context(scan):
    with open(HEALTHY, encoding="utf-8") as file:
        seen = {e.signature for e in scan(file.read()).context}
    assert seen == {"deepspeed-overflow", "checkpoint-start"}


@pytest.mark.parametrize(
    "text",
    [s.example for s in CATALOGUE.signatures if s.evidence and not s.after_traceback],
    ids=[s.id for s in CATALOGUE.signatures if s.evidence and not s.after_traceback],
)
def test_a_whole_scan_of_an_example_finds_something(scan, text):
    result = scan(text + "\n")
    assert result.evidence or result.context


GOOD = """
[[signature]]
id = "my-library-broke"
role = "root"
class = "user/nan"
pattern = 'my library broke on rank (?P<rank>\\d+)'
source = "mylib 1.0"
example = "my library broke on rank 3"
expect = { rank = "3" }
"""


def site(tmp_path, text):
    (tmp_path / "site.toml").write_text(text)
    from epilog.signatures import FOLDER

    return load((FOLDER, str(tmp_path)))


def test_a_site_adds_a_signature_without_code(tmp_path):
    added = site(tmp_path, GOOD).signatures[-1]
    assert (added.id, added.subject, added.triggers) == (
        "my-library-broke", "site", ("my library broke on rank ",)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (('role = "root"', 'role = "roots"'), "a role of"),
        (('class = "user/nan"', 'class = "user/nam"'), "a class that classes.toml lists"),
        (('source = "mylib 1.0"', ""), "the key source"),
        (('source = "mylib 1.0"', "source = 1"), "source = a text"),
        (('source = "mylib 1.0"', 'source = "x"\ncolour = "red"'), "only the keys"),
        (("pattern = 'my library broke on rank (?P<rank>\\d+)'", "pattern = 'a.*b'"), "fixed text"),
        (('id = "my-library-broke"', 'id = "My Library"'), "lower-case words"),
        (('id = "my-library-broke"', 'id = "cuda-ecc"'), "an id of its own"),
        (('source = "mylib 1.0"', 'source = "x"\nrecord = "works"'), "record = one of"),
        (('source = "mylib 1.0"', 'source = "x"\nextends = ["nobody"]'), "ids that exist"),
        (('source = "mylib 1.0"', 'source = "x"\ntriggers = ["ab"]'), "7 bytes or more"),
        (('source = "mylib 1.0"', 'source = "x"\npriority = true'), "a whole number"),
        (('source = "mylib 1.0"', 'source = "x"\nexpect = ["rank"]'), "a table of texts"),
    ],
)
def test_a_bad_signature_is_refused_with_file_line_and_what_was_expected(
    tmp_path, change, expected
):
    text = GOOD.replace('expect = { rank = "3" }\n', "").replace(*change)
    with pytest.raises(SignatureError) as error:
        site(tmp_path, text)
    assert "site.toml:2: " in str(error.value)
    assert expected in str(error.value)


@pytest.mark.parametrize("text", ["[[signature]", "signature = 3", "[[signatures]]\nid = 'x'"])
def test_a_file_that_is_no_signature_file_is_refused(tmp_path, text):
    with pytest.raises(SignatureError, match=r"site\.toml"):
        site(tmp_path, text)
