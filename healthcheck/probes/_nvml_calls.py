"""One door for NVML calls: each is noted before it is made, and its error is kept, never raised.

On the hot path of the prolog: nothing is imported here but builtins.
"""

from collections.abc import Callable
from typing import Any

UNSUPPORTED = frozenset({3, 13, 22, 25, 26})
"""NOT_SUPPORTED, FUNCTION_NOT_FOUND, VGPU_ECC_NOT_SUPPORTED, ARGUMENT_VERSION_MISMATCH, DEPRECATED:
this GPU, driver or binding does not know the call, which says nothing about health."""
INVALID_ARGUMENT = 2
GPU_IS_LOST = 15
MAX_TEXT = 128

_NAMES = {
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    4: "NO_PERMISSION",
    6: "NOT_FOUND",
    8: "INSUFFICIENT_POWER",
    9: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    11: "IRQ_ISSUE",
    12: "LIBRARY_NOT_FOUND",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    19: "IN_USE",
    20: "MEMORY",
    21: "NO_DATA",
    23: "INSUFFICIENT_RESOURCES",
    27: "NOT_READY",
    28: "GPU_NOT_FOUND",
    29: "INVALID_STATE",
    999: "UNKNOWN",
}


class Unanswered:
    """In place of an answer: the NVML return code of a call that failed."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class Calls:
    """NVML calls about one subject. `errors` gathers all that deserve telling.

    After GPU_IS_LOST no further call is made on the subject: each could only hang or say the
    same again.
    """

    __slots__ = ("_failure", "_note", "errors", "lost", "nvml", "subject")

    def __init__(self, nvml: Any, note: Callable[[str, str], None], subject: str) -> None:
        self.nvml = nvml
        self.subject = subject
        self.errors: list[dict[str, Any]] = []
        self.lost = False
        self._note = note
        self._failure: type[Exception] = nvml.NVMLError

    def ask(self, name: str, *arguments: Any) -> Any:
        """The call's answer, or Unanswered with its code; keeps no error."""
        function = getattr(self.nvml, name, None)
        if function is None:
            return Unanswered(13)
        self._note(name, self.subject)
        try:
            return function(*arguments)
        except self._failure as error:
            return Unanswered(int(getattr(error, "value", 999)))
        except (UnicodeDecodeError, TypeError, AttributeError):
            # Bytes that are no text, or a binding of another age: not to be had here.
            return Unanswered(3)

    def get(self, name: str, *arguments: Any) -> Any:
        """The call's answer, or None where it has none; an error is kept."""
        if self.lost:
            return None
        answer = self.ask(name, *arguments)
        if isinstance(answer, Unanswered):
            self.keep(name, answer.code)
            return None
        return answer

    def first(self, *calls: tuple[Any, ...]) -> Any:
        """The first answer among calls that mean the same in newer and older drivers."""
        for name, *arguments in calls:
            answer = self.get(name, *arguments)
            if answer is not None:
                return answer
        return None

    def keep(self, name: str, code: int) -> None:
        """Remember an error, unless it only means "not supported" or was told before."""
        if code in UNSUPPORTED:
            return
        if code == GPU_IS_LOST:
            self.lost = True
        error = error_of(name, code)
        if error not in self.errors:
            self.errors.append(error)


def error_of(call: str, code: int) -> dict[str, Any]:
    """An NVML error as the model has it."""
    return {"call": call, "code": code, "name": f"NVML_ERROR_{_NAMES.get(code, code)}"}


def text(value: Any) -> str | None:
    """A short printable text, or None. Old bindings answer with bytes."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return None
    clean = value if value.isprintable() else "".join(c for c in value if c.isprintable())
    return clean[:MAX_TEXT].strip() or None


def number(value: Any) -> int | None:
    """A plain integer, or None."""
    return value if isinstance(value, int) else None
