"""The few rules that all Xid codes share: how bad, what mends it, and in words for a reader."""

import msgspec

from healthcheck.model import Action, Severity


class Rule(msgspec.Struct, frozen=True):
    """What a rule says of a first occurrence, and what it does in words.

    `severity` and `action` hold for an Xid that stands alone; what changes them (repetition,
    words in the line) is in healthcheck/checks/_xid_rules.py.
    """

    severity: Severity
    action: Action
    does: str
    todo: str


_JOBS = "the node fails only when the same GPU shows it in unrelated jobs of different users"

RULES: dict[str, Rule] = {
    "none": Rule(
        Severity.INFO, Action.NONE, "Told once, judges nothing.", "Nothing to do for the node."
    ),
    "application": Rule(
        Severity.INFO,
        Action.RESTART_APP,
        f"Told once: it belongs to the application; {_JOBS}.",
        "Restart the application and debug it.",
    ),
    "engine": Rule(
        Severity.INFO,
        Action.RESTART_APP,
        f"Told once; a warning when it returns on the same GPU; {_JOBS}.",
        "Restart the application; watch the GPU.",
    ),
    "pcie-repeat": Rule(
        Severity.INFO,
        Action.RESTART_APP,
        f"Told once; a warning to check the PCIe link when it returns; {_JOBS}.",
        "Restart the application; check the PCIe link on repeat.",
    ),
    "watch": Rule(
        Severity.WARN, Action.NONE, "A warning until the next reboot.", "Watch this GPU."
    ),
    "watch-reboot": Rule(
        Severity.WARN,
        Action.NONE,
        "A warning; when it returns on the same GPU the node fails until a reboot.",
        "Watch this GPU; reboot the node when it returns.",
    ),
    "follow": Rule(
        Severity.INFO,
        Action.RESTART_APP,
        "Follows the Xid that the line names: shown under it, judged as it.",
        "Look at the Xid that came before it on this GPU.",
    ),
    "recovery-action": Rule(
        Severity.WARN,
        Action.NONE,
        "Its text is the driver's own demand (reset, reboot, drain P2P); the last one counts.",
        "Do what the line says.",
    ),
    "reset": Rule(
        Severity.FAIL,
        Action.RESET_GPU,
        "The node fails until it is rebooted, or the GPU is reset and that is accepted.",
        "Reset the GPU when it is idle.",
    ),
    "reboot": Rule(
        Severity.FAIL, Action.REBOOT, "The node fails until it is rebooted.", "Reboot the node."
    ),
    "replace": Rule(Severity.FAIL, Action.REPLACE, "The node fails.", "Replace the GPU."),
    "contained": Rule(
        Severity.WARN,
        Action.RESTART_APP,
        "A warning the first time; the node fails when it returns on the same GPU in time.",
        "Restart the application; reset the GPU on repeat.",
    ),
    "reset-idle": Rule(
        Severity.WARN,
        Action.RESET_GPU,
        "A warning: new work is safe, the GPU wants a reset when it is next idle.",
        "Reset the GPU at the next idle moment.",
    ),
    "nvlink5": Rule(
        Severity.WARN,
        Action.NONE,
        "By the severity word in the line: Fatal and Link Fatal fail, Nonfatal warns.",
        "Reset the GPU when the line says fatal; otherwise watch the link.",
    ),
    "detail": Rule(
        Severity.FAIL,
        Action.RESET_GPU,
        "A detail of Xid 48, shown under it; alone it is judged as 48.",
        "Reset the GPU.",
    ),
    "power-cable": Rule(
        Severity.FAIL, Action.DRAIN, "The node fails.", "Check the power cable of the GPU."
    ),
    "software": Rule(
        Severity.WARN, Action.NONE, "A warning.", "Mend the driver or vGPU installation."
    ),
    "review": Rule(
        Severity.WARN,
        Action.NONE,
        "A warning to review: no action is known for this code.",
        "Read the lines around it and ask NVIDIA; tell us what it was.",
    ),
}
"""Derived from `ours` in xid.tsv; tests hold that every code has one of these."""


def advice_for(rule: str, advice: str) -> str:
    """What an operator should do: the code's own advice, or its rule's."""
    return advice or RULES[rule].todo
