"""What nodes say about each other: common causes, drift, outliers. Pure."""

from collections.abc import Sequence

from slurm_integration.sweep.compare.causes import common_causes
from slurm_integration.sweep.compare.drift import drifts
from slurm_integration.sweep.compare.outliers import outliers
from slurm_integration.sweep.compare.topology import Topology
from slurm_integration.sweep.model import Answer, Comparison, NodeResult


def compare(results: Sequence[NodeResult], topology: Topology) -> Comparison:
    """Everything that can only be seen by looking at many nodes at once."""
    asked = [result for result in results if result.answer is not Answer.INTERRUPTED]
    unusual, metrics = outliers(asked)
    findings = (*common_causes(asked, topology), *drifts(asked), *unusual)
    return Comparison(findings, metrics)


__all__ = ["Topology", "compare"]
