"""GPU memory: ECC errors, row remapping, retired pages."""

from healthcheck.model import Action, Severity
from slurm_integration.sandbox.faults.edit import edit_gpu
from slurm_integration.sandbox.faults.registry import Target, fault, must_pass, unchanged
from slurm_integration.sandbox.machine.description import Machine


@fault("ecc-uncorrected", "gpu-ecc", action=Action.RESET_GPU)
def ecc_uncorrected(machine: Machine, target: Target) -> Machine:
    """Two uncorrected memory errors since the last look."""
    return edit_gpu(machine, target, dram_volatile_uncorrected=2, dram_aggregate_uncorrected=2)


@fault("ecc-corrected-storm", "gpu-ecc", Severity.WARN)
def ecc_corrected_storm(machine: Machine, target: Target) -> Machine:
    """Twenty thousand corrected memory errors since the last look."""
    return edit_gpu(
        machine, target, dram_volatile_corrected=20_000, dram_aggregate_corrected=20_000
    )


def _old_errors(machine: Machine, target: Target) -> Machine:
    return edit_gpu(
        machine, target, dram_aggregate_uncorrected=3, dram_aggregate_corrected=48_211,
        remapped_rows_uncorrected=1, row_remapper_max=2559, row_remapper_high=1,
    )  # fmt: skip


@must_pass("ecc-lifetime-only", past=_old_errors)
def ecc_lifetime_only(machine: Machine, target: Target) -> Machine:
    """Errors of the GPU's whole life, all older than the last look, one row remapped long ago."""
    return unchanged(machine, target)


@fault("sram-threshold", "gpu-ecc", action=Action.REPLACE)
def sram_threshold(machine: Machine, target: Target) -> Machine:
    """The driver says that the SRAM errors of this GPU passed the replacement threshold."""
    return edit_gpu(machine, target, sram_threshold_exceeded=True)


@fault("row-remap-pending", "gpu-row-remap", Severity.WARN, Action.RESET_GPU)
def row_remap_pending(machine: Machine, target: Target) -> Machine:
    """A row remap waits for the next GPU reset: new work is safe, so no drain."""
    return edit_gpu(machine, target, remapped_rows_pending=True, remapped_rows_uncorrected=1)


@fault("row-remap-failure", "gpu-row-remap", action=Action.REPLACE)
def row_remap_failure(machine: Machine, target: Target) -> Machine:
    """A row could not be remapped: its bank has no spare row left."""
    return edit_gpu(
        machine, target, remapped_rows_failure=True, row_remapper_none=1, row_remapper_max=2559
    )


@fault("row-remap-many", "gpu-row-remap", action=Action.REPLACE)
def row_remap_many(machine: Machine, target: Target) -> Machine:
    """More rows were remapped for uncorrectable errors than a GPU is kept with."""
    return edit_gpu(machine, target, remapped_rows_uncorrected=513)


_NO_REMAPPER = {
    "remapped_rows_corrected": None,
    "remapped_rows_uncorrected": None,
    "remapped_rows_pending": None,
    "remapped_rows_failure": None,
}


@fault("retired-pages-pending", "gpu-retired-pages", action=Action.RESET_GPU)
def retired_pages_pending(machine: Machine, target: Target) -> Machine:
    """A page waits to be retired, on a GPU of the generations without row remapping."""
    return edit_gpu(machine, target, **_NO_REMAPPER, retired_pages_single_bit=2,
                    retired_pages_double_bit=1, retired_pages_pending=True)  # fmt: skip


@fault("retired-pages-many", "gpu-retired-pages", action=Action.REPLACE)
def retired_pages_many(machine: Machine, target: Target) -> Machine:
    """So many pages are retired that the GPU must be replaced."""
    return edit_gpu(machine, target, **_NO_REMAPPER, retired_pages_single_bit=61,
                    retired_pages_double_bit=4, retired_pages_pending=False)  # fmt: skip


@fault("recovery-action-reset", "gpu-recovery-action", action=Action.RESET_GPU)
def recovery_action_reset(machine: Machine, target: Target) -> Machine:
    """The driver recommends to reset this GPU (field 230 = 1)."""
    return edit_gpu(machine, target, recovery_action=1)


@fault("recovery-action-reboot", "gpu-recovery-action", action=Action.REBOOT)
def recovery_action_reboot(machine: Machine, target: Target) -> Machine:
    """The driver recommends to reboot the node (field 230 = 2)."""
    return edit_gpu(machine, target, recovery_action=2)


@fault("repair-pending", "gpu-row-remap", action=Action.RESET_GPU)
def repair_pending(machine: Machine, target: Target) -> Machine:
    """A memory channel repair waits for the next GPU reset."""
    return edit_gpu(machine, target, repair_channel_pending=True)


@fault("gpu-memory-short", "gpu-memory", action=Action.DRAIN)
def gpu_memory_short(machine: Machine, target: Target) -> Machine:
    """The GPU shows less memory than its type has."""
    return edit_gpu(machine, target, memory_total_bytes=32 << 30)
