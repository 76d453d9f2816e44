"""Times as logs print them → unix seconds. Local times are taken in this machine's zone."""

import calendar
import functools
import re
import time

_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_DAY = 86400.0

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?"
)
_GLOG = re.compile(r"(\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_CTIME = re.compile(
    r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d+))? (\d{4})"
)
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_RICH = re.compile(r"(\d\d)/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)")


def parse_time(text: str, around: float | None = None) -> float | None:
    """Unix seconds of `text`, or None where it is no time.

    Knows ISO 8601 (with space, T or _; Python logging's comma), glog's `MMDD HH:MM:SS.f`,
    ctime, syslog and rich. Where the year is missing, the year nearest to `around` (unix
    seconds) is taken; without it, the last one that is not in the future.
    """
    if match := _ISO.match(text):
        year, month, day, hour, minute, second, fraction, zone = match.groups()
        return _seconds(
            (int(year), int(month), int(day), int(hour), int(minute), int(second)), fraction, zone
        )
    if match := _CTIME.match(text):
        name, day, hour, minute, second, fraction, year = match.groups()
        month_number = _MONTHS.get(name)
        if month_number is None:
            return None
        return _seconds(
            (int(year), month_number, int(day), int(hour), int(minute), int(second)), fraction
        )
    if match := _GLOG.match(text):
        month, day, hour, minute, second, fraction = match.groups()
        return _without_year(
            (int(month), int(day), int(hour), int(minute), int(second)), fraction, around
        )
    if match := _SYSLOG.match(text):
        name, day, hour, minute, second, fraction = match.groups()
        month_number = _MONTHS.get(name)
        if month_number is None:
            return None
        return _without_year(
            (month_number, int(day), int(hour), int(minute), int(second)), fraction, around
        )
    if match := _RICH.match(text):
        month, day, year, hour, minute, second = (int(part) for part in match.groups())
        return _seconds((2000 + year, month, day, hour, minute, second), None)
    return None


@functools.lru_cache(maxsize=256)
def _local(moment: tuple[int, int, int, int, int, int]) -> float:
    """mktime, which asks the zone's rules anew each time; a cascade's lines share seconds."""
    return time.mktime((*moment, 0, 0, -1))


def _seconds(
    moment: tuple[int, int, int, int, int, int], fraction: str | None, zone: str | None = None
) -> float | None:
    year, month, day, hour, minute, second = moment
    if not (1970 <= year < 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        return None
    if hour > 24 or minute > 59 or second > 60:
        return None
    part = float(f"0.{fraction[:9]}") if fraction else 0.0
    try:
        if zone is None:
            return _local(moment) + part
        whole = calendar.timegm((*moment, 0, 0, 0)) + part
    except (OverflowError, ValueError):
        return None
    if zone == "Z":
        return whole
    sign = -1 if zone[0] == "-" else 1
    return whole - sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)


def _without_year(
    moment: tuple[int, int, int, int, int], fraction: str | None, around: float | None
) -> float | None:
    reference = time.time() if around is None else around
    year = time.localtime(reference).tm_year
    guesses = [
        guess
        for guess in (_seconds((year + step, *moment), fraction) for step in (-1, 0, 1))
        if guess is not None and (around is not None or guess <= reference + _DAY)
    ]
    return min(guesses, key=lambda guess: abs(guess - reference), default=None)
