"""The SPANK plugin: a plugin that does not load takes sbatch with it where it is `required`."""

from collections.abc import Iterator

from slurm_integration.doctor.model import Complaint, Facts
from slurm_integration.doctor.registry import about_slurm, advice, wrong
from slurm_integration.doctor.slurm_conf import SlurmConf


@about_slurm("spank-required")
def spank_required(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """Our plugin is `optional` in plugstack.conf."""
    for plugin in facts.plugins:
        if plugin.required:
            yield advice(
                f"{plugin.file}:{plugin.line}", "the plugin is `required`",
                "where it does not load, after an upgrade of Slurm say, no job starts",
                f"optional {plugin.path}",
            )  # fmt: skip


@about_slurm("spank-file")
def spank_file(_: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """The plugin that plugstack.conf names is there and is one of ours."""
    for plugin in facts.plugins:
        if plugin.problem:
            tell = wrong if plugin.required else advice
            yield tell(
                f"{plugin.file}:{plugin.line}", f"{plugin.path}: {plugin.problem}",
                "sbatch and srun fail" if plugin.required else
                "--preflight is not there, and no record is kept of how tasks end",
                "make spank on this release of Slurm, and put the file there",
            )  # fmt: skip


@about_slurm("spank-release")
def spank_release(slurm: SlurmConf, facts: Facts) -> Iterator[Complaint]:
    """The plugin was built for the Slurm that runs."""
    running = slurm.version
    for plugin in facts.plugins:
        if plugin.built_for is None or running is None or plugin.built_for == running:
            continue
        built, runs = (f"{major}.{minor:02d}" for major, minor in (plugin.built_for, running))
        yield wrong(
            plugin.path, f"built for Slurm {built}, and Slurm {runs} runs",
            "Slurm refuses it (Incompatible plugin version)"
            + (": sbatch and srun fail" if plugin.required else ": it does nothing"),
            f"make spank with the headers of Slurm {runs}",
        )  # fmt: skip
