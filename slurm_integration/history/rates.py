"""How sure a rate is: Poisson counts over time watched. Pure; needs nothing but `math`.

The incomplete gamma function is all of it: P(N ≥ k | μ) = P(k, μ) for Poisson counts, exact
limits of a rate are its inverse, and Fisher's sum of logarithms follows it too.
"""

import math

import msgspec

CONFIDENCE = 0.95
_TINY = 1e-300
_EPSILON = 1e-12


class Mtbf(msgspec.Struct, frozen=True):
    """Mean time between failures, in hours, with exact (Garwood) limits at CONFIDENCE.

    None for a mean without a failure, and for an upper limit that nothing bounds.
    """

    failures: int
    hours: float
    mean: float | None
    low: float | None
    high: float | None


def mtbf(failures: int, hours: float) -> Mtbf:
    """The mean time between failures of something watched for `hours`."""
    if hours <= 0:
        return Mtbf(failures, hours, None, None, None)
    tail = (1 - CONFIDENCE) / 2
    most = _mean_with_tail(failures + 1, 1 - tail)
    least = _mean_with_tail(failures, tail) if failures else 0.0
    return Mtbf(
        failures,
        hours,
        hours / failures if failures else None,
        hours / most,
        hours / least if least else None,
    )


def at_least(count: int, expected: float) -> float:
    """The chance of `count` or more where `expected` is the mean (Poisson)."""
    if count <= 0:
        return 1.0
    return gamma_p(count, expected) if expected > 0 else 0.0


def combined(chances: list[float]) -> float:
    """Fisher's method: the chance that independent chances are together this small.

    On the safe side for counts, whose chances come in steps.
    """
    if not chances:
        return 1.0
    return gamma_q(len(chances), -sum(math.log(max(chance, _TINY)) for chance in chances))


def gamma_p(a: float, x: float) -> float:
    """The regularised lower incomplete gamma function."""
    if x <= 0:
        return 0.0
    return _series(a, x) if x < a + 1 else 1.0 - _fraction(a, x)


def gamma_q(a: float, x: float) -> float:
    """1 - gamma_p, without losing small values to rounding."""
    if x <= 0:
        return 1.0
    return 1.0 - _series(a, x) if x < a + 1 else _fraction(a, x)


def _series(a: float, x: float) -> float:
    term = total = 1.0 / a
    n = a
    for _ in range(100_000):
        n += 1
        term *= x / n
        total += term
        if term < total * _EPSILON:
            break
    return min(1.0, total * math.exp(a * math.log(x) - x - math.lgamma(a)))


def _fraction(a: float, x: float) -> float:
    """Lentz's method for the continued fraction of gamma_q."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / b
    h = d
    for i in range(1, 100_000):
        an = -i * (i - a)
        b += 2
        d = 1 / _away_from_zero(an * d + b)
        c = _away_from_zero(b + an / c)
        h *= d * c
        if abs(d * c - 1) < _EPSILON:
            break
    return min(1.0, h * math.exp(a * math.log(x) - x - math.lgamma(a)))


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _mean_with_tail(count: int, tail: float) -> float:
    """The mean μ for which gamma_p(count, μ) = tail. By halving: it only grows with μ."""
    low, high = 0.0, count + 10 * math.sqrt(count) + 20.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if gamma_p(count, middle) < tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2
