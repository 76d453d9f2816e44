"""The classes of failure: data in classes.toml, loaded strictly."""

import os
import tomllib
from enum import StrEnum

import msgspec

from epilog.model import Drain

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "classes.toml")
UNKNOWN = "unknown/no-cause"


class Fault(StrEnum):
    """Who has to change something."""

    HARDWARE = "hardware"
    NETWORK = "network"
    SITE = "site"
    USER = "user"
    SCHEDULER = "scheduler"
    UNKNOWN = "unknown"


class Act(StrEnum):
    """What follows from a class; see decide/."""

    DRAIN = "drain"
    SUSPECT = "suspect"
    REQUEUE = "requeue"
    TELL = "tell"
    NOTHING = "nothing"


class FailureClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One class; its fields as classes.toml explains them."""

    says: str
    fault: Fault
    drain: Drain
    weight: int
    confidence: float
    proven: float
    proven_action: Act
    text_action: Act
    advice: str
    source: str = ""


_loaded: dict[str, FailureClass] = {}


def classes() -> dict[str, FailureClass]:
    """Every class by its name `category/class`.

    ValueError where the file has an unknown key or value: it is ours, so this is a bug.
    """
    if not _loaded:
        with open(FILE, "rb") as file:
            data = tomllib.load(file)
        _loaded.update(msgspec.convert(data["class"], dict[str, FailureClass]))
    return _loaded


def class_of(name: str) -> FailureClass:
    """The class of that name; one that a site's own signature invented is treated as unknown."""
    return classes().get(name) or classes()[UNKNOWN]
