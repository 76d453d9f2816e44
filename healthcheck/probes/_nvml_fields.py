"""nvmlDeviceGetFieldValues: many small facts in one call, each with a return code of its own."""

from typing import Any

from healthcheck.probes._nvml_calls import INVALID_ARGUMENT, Calls, Unanswered

_CALL = "nvmlDeviceGetFieldValues"
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t by nvmlValueType_t; a field that is not supported reads as 0, which is
why its own return code is looked at first."""

Field = int | tuple[int, int]


def field_id(nvml: Any, name: str, default: int | None) -> int | None:
    """The id of `NVML_FI_DEV_` + name. `default` where an older binding does not know the name
    but the id is the same in every driver (all below 251)."""
    value = getattr(nvml, f"NVML_FI_DEV_{name}", default)
    return value if isinstance(value, int) else default


def read_fields(calls: Calls, handle: Any, fields: list[Field]) -> list[int | None] | None:
    """The values in the order asked, None for each that has none; None where the call failed."""
    if calls.lost:
        return None
    answer = calls.ask(_CALL, handle, fields)
    if isinstance(answer, Unanswered):
        calls.keep(_CALL, answer.code)
        return None
    return [_value(calls, value) for value in answer]


def _value(calls: Calls, field: Any) -> int | None:
    code = field.nvmlReturn
    if code:
        # A link past the last one, or one that this GPU type does not count.
        if code != INVALID_ARGUMENT:
            calls.keep(_CALL, code)
        return None
    kind = field.valueType
    if kind >= len(_MEMBERS):
        return None
    try:
        return int(getattr(field.value, _MEMBERS[kind]))
    except (AttributeError, ValueError, OverflowError):
        return None
