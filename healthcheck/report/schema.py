"""The JSON schema of the report, made from the types that make the report.

`python -m healthcheck.report.schema` writes it to schema.json beside this file; a test holds the
file, the types and real reports together.
"""

import json
import os
from typing import Any

from healthcheck.model import Action, Ending, Severity, Verdict

PATH = f"{os.path.dirname(os.path.abspath(__file__))}/schema.json"
_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_MEASURE = {"type": ["string", "number", "boolean", "null"]}


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of `flightcheck check --json`."""
    finding = _object(
        severity=_words(Severity),
        subject=_TEXT,
        message=_TEXT,
        measured=_MEASURE,
        expected=_MEASURE,
        action=_words(Action),
        source=_TEXT_OR_NULL,
    )
    outcome = _object(
        check={"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        outcome=_words(Ending),
        reason=_TEXT_OR_NULL,
        findings={"type": "array", "items": finding},
    )
    report = _object(
        verdict=_words(Verdict),
        node=_TEXT,
        profile=_TEXT,
        stage=_TEXT,
        duration_s={"type": "number", "minimum": 0},
        notes={"type": "array", "items": _TEXT},
        outcomes={"type": "array", "items": outcome},
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "flightcheck report",
        **report,
    }


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _words(kind: Any) -> dict[str, Any]:
    return {"enum": [word.value for word in kind]}


def text() -> str:
    """The schema as the file holds it."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(text())
