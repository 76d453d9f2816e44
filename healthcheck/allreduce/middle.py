"""The median. The statistics module costs the prolog more to import than all checks together."""

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The middle of the values, or the mean of the two in the middle. Raises IndexError on none."""
    order = sorted(values)
    half = len(order) // 2
    return order[half] if len(order) % 2 else (order[half - 1] + order[half]) / 2
