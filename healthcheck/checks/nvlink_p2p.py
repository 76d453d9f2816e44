"""Whether GPUs reach each other over NVLink."""

from collections.abc import Iterator

import msgspec

from healthcheck.checks._gpus import NODE, listed
from healthcheck.checks.nvlink import whole_gpus
from healthcheck.model import Action, Finding, NotApplicable, P2pPair, Snapshot, Unmeasured, fail
from healthcheck.registry import check

_STATUS = {
    1: "chipset not supported",
    2: "GPU not supported",
    3: "topology not supported",
    4: "disabled by a registry key",
    5: "not supported",
    6: "unknown",
}


class P2pLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether every GPU of this node type reaches every other over NVLink."""

    required: bool


@check(
    "nvlink-p2p",
    needs=("gpus", "p2p"),
    limits=P2pLimits,
    source="nvmlDeviceGetP2PStatus of NVIDIA's NVML API reference",
)
def nvlink_p2p(node: Snapshot, limits: P2pLimits) -> Iterator[Finding]:
    """Every GPU reaches every other over NVLink.

    What it means: where a pair cannot, NCCL takes PCIe or host memory for it without a word, at a
    tenth of the speed.

    What we do: fail, gathering the pairs by the GPU they have in common; where no GPU stands out,
    one finding about the node.

    What to do: reset the GPU that is named, then reboot. All pairs: the fabric manager, IOMMU or
    ACS settings, a registry key that disables peer access.
    """
    if not limits.required:
        raise NotApplicable("this node type does not link every GPU with every other")
    gpus = whole_gpus(node)
    if len(gpus) < 2:
        raise NotApplicable("one GPU has no peer")
    pairs = node.p2p or ()
    if not pairs:
        raise Unmeasured("no pair of GPUs could be asked: no GPU has an active NVLink")
    bad = [pair for pair in pairs if pair.status != 0]
    if not bad:
        return
    culprits = _culprits(bad)
    if len(culprits) * 2 > len(gpus) or len(bad) == len(pairs) > 1:
        yield _broken(NODE, bad, f"{len(bad)} of {len(pairs)} GPU pairs", "", Action.REBOOT)
        return
    for bus_id, its in culprits:
        others = [pair.second if pair.first == bus_id else pair.first for pair in its]
        yield _broken(
            bus_id, its, f"{len(its)} of its peers", f" ({listed(others)})", Action.RESET_GPU
        )


def _culprits(bad: list[P2pPair]) -> list[tuple[str, list[P2pPair]]]:
    """The fewest GPUs that explain all bad pairs, the worst first."""
    left, culprits = list(bad), []
    while left:
        ends = [bus_id for pair in left for bus_id in (pair.first, pair.second)]
        worst = max(sorted(set(ends)), key=ends.count)
        its = [pair for pair in left if worst in (pair.first, pair.second)]
        culprits.append((worst, its))
        left = [pair for pair in left if pair not in its]
    return culprits


def _broken(subject: str, pairs: list[P2pPair], what: str, who: str, action: Action) -> Finding:
    reasons = sorted({_STATUS.get(pair.status, str(pair.status)) for pair in pairs})
    return fail(
        subject,
        f"no NVLink peer access for {what}{who}: {', '.join(reasons)}; NCCL would fall back to "
        "PCIe or host memory",
        measured=len(pairs),
        expected=0,
        action=action,
    )
