"""What a signature is: one wording of one library, and what it says about a failure."""

import re

import msgspec

from epilog.model import Role

RECORDS = ("work", "exit", "place", "attempt")


class Verdict(msgspec.Struct, frozen=True):
    """Role and class a match stands for."""

    role: Role
    klass: str


class Signature(msgspec.Struct, frozen=True):
    """One wording.

    `pattern` is searched in the cleaned line; where it begins with `^`, in the line's body (what
    follows the launcher's and logger's prefixes). Named groups become the evidence's fields;
    `rank`, `local_rank`, `host`, `time` and `tasks` also say whom and when the line is about,
    `culprits` lists the ranks it accuses and `peer` the address. `triggers` are the literals that
    the scanner looks for. `unless`: expressions that make the line mean something else.

    On one segment of a line only the matches of the highest `priority` become evidence. `by`
    turns the value of a field into role and class; a value that is not listed gives no evidence,
    unless `*` is. `record` feeds works, exits, places or attempts. `extends`: this line only adds
    fields to the last evidence of those ids. `context`: true of healthy jobs too.
    """

    id: str
    subject: str
    pattern: str
    source: str
    example: str
    verdict: Verdict | None = None
    expect: dict[str, str] = {}
    triggers: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    priority: int = 50
    by_field: str = ""
    by: dict[str, Verdict] = {}
    record: str = ""
    extends: tuple[str, ...] = ()
    evidence: bool = True
    context: bool = False
    after_traceback: bool = False

    def verdict_for(self, fields: dict[str, str]) -> Verdict | None:
        """Role and class of a match with these fields, or None where it says nothing."""
        if not self.by_field:
            return self.verdict
        return self.by.get(fields.get(self.by_field, ""), self.by.get("*"))


class Advice(msgspec.Struct, frozen=True):
    """Text that libraries print to help; cut out of a line before it is matched."""

    id: str
    pattern: str
    source: str
    example: str
    triggers: tuple[str, ...] = ()


class Catalogue(msgspec.Struct, frozen=True):
    """All signatures, the classes they may name, and the advice to drop."""

    signatures: tuple[Signature, ...]
    classes: frozenset[str]
    advice: tuple[Advice, ...]


def fields_of(match: re.Match[str]) -> dict[str, str]:
    """The named groups that took part, each at most 256 characters."""
    return {
        name: value.strip()[:256] for name, value in match.groupdict().items() if value is not None
    }
