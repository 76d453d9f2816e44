import pytest

from epilog.scan.times import parse_time

AROUND = 1_786_320_000.0  # 2026-08-10 00:00 UTC


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-08-10T03:04:10", 1786331050.0),
        ("2026-08-10 03:04:10,250", 1786331050.25),
        ("2026-08-10_03:04:10", 1786331050.0),
        ("2026-08-10T03:04:10.5Z", 1786331050.5),
        ("2026-08-10T05:04:10+02:00", 1786331050.0),
        ("2026-08-09T22:04:10-0500", 1786331050.0),
        ("810 03:04:10.850617863", 1786331050.850617863),
        ("0810 03:04:10.85", 1786331050.85),
        ("Mon Aug 10 03:04:10 2026", 1786331050.0),
        ("Aug 10 03:04:10", 1786331050.0),
        ("08/10/26 03:04:10", 1786331050.0),
        ("1231 23:59:59.0", 1798761599.0),
        ("step 3", None),
        ("9999-99-99 99:99:99", None),
        ("0000 00:00:00.0", None),
        ("Foo 10 03:04:10", None),
    ],
)
def test_times_of_every_style(text, seconds):
    assert parse_time(text, AROUND) == (None if seconds is None else pytest.approx(seconds))


def test_a_year_that_is_missing_is_the_nearest_to_the_job():
    new_year = 1_798_761_600.0  # 2027-01-01 00:00 UTC
    assert parse_time("1231 23:59:59.0", new_year) == new_year - 1
    assert parse_time("0101 00:00:01.0", new_year - 5) == new_year + 1


def test_without_a_job_the_year_is_never_in_the_future():
    import time

    at = parse_time(time.strftime("%m%d 00:00:00.0", time.localtime(time.time() + 7 * 86400)))
    assert at is None or at < time.time()
